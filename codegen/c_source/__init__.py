"""Kernels and programs as readable C11, for machines that LLVM makes no code for.

- ``scalars``: expressions of one element.
- ``nests``: loop nests as functions.
- ``programs``: a program with its kernels as one file.
- ``helpers.h``: what C lacks of the scalar operators; every file begins with it.
"""
