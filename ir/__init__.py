"""The languages of the compiler. Nothing here imports another part of it.

::

    dims, dtype, span, errors   what all of them share: sizes, element types, places, mistakes
    dataclass   the decorator of all node classes, cheap to import
    graph/      typed functional programs of operators; passes/ rewrite and fuse them
    ops/        every operator, one definition each; groups of them become PrimFuncs
    loop/       PrimFuncs (tensor expressions) and loop nests
    schedule/   schedules as data, the primitives, and how one is applied
    program/    instructions on memory: lifetimes, sharing, one arena

Each language has a printer, a parser, a verifier and an interpreter.
"""
