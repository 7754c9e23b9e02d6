"""The only place for llvmlite: LLVM text in, object code out, object code loaded."""
