"""From loop nests and programs to machine code.

::

    target              what is assumed of a machine: ISA level, vectors, caches
    kernel              PrimFunc + schedule -> LLVM text of one kernel       (emit/ writes it)
    elementary/         exp, tanh, sin ... as vector code of our own   interleaved   several at once
    program_from_graph  fused graph -> program IR     program   program -> native entry
    in_place_rule       which results may be written over which operands
    saved_program       a program, its code and its constants as one file
    update_entry        the native entry that gives arguments new values
    llvm/               the one door to llvmlite; the disk cache      objects   object code
    runtime/            thread pool, calls, memory of results: knows no compiler part
    one_kernel          a single kernel run in this process
    machine, probes     measured peak and bandwidth

It never asks for a schedule; it is handed one.
"""
