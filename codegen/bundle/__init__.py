"""Bundles: a compiled program as a relocatable object with a C interface, and what C needs of it.

::

    interface.py   the function as C sees it: operands, sizes, names
    weights.py     constants of all variants in one file, each once
    runtime.py     LLVM text of what a program calls: loops in parallel, the processor, checks
    wrapper.py     LLVM text of the functions that C calls
    objects.py     programs of one function, for one level each -> one object; its symbols
    header.py      the header, and files.py the example and the build file
"""
