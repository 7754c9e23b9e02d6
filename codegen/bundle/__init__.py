"""Bundles: a compiled program as a relocatable object with a C interface, and what C needs of it.

::

    interface.py   the function as C sees it: operands, sizes, names
    weights.py     constants of all variants in one file, each once
    processor.py   LLVM text that finds out what the processor can do
    wrapper.py     LLVM text of the functions that C calls, and of those that programs call
    objects.py     programs of one function, for one level each -> one object; its symbols
    header.py      the header, and files.py the example and the build file
    wheel.py       a Python wheel of it
"""
