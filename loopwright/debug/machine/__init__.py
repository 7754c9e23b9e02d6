"""The meaning of the LLVM text that kernels are written as: what a machine with exact memory and no
optimiser makes of it, for any target, whatever this machine is."""
