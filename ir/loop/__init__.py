"""Loop IR: what one element of a result is, and the loop nests that compute all of them.

::

    scalar, expr    scalar operators, expressions of one element
    tensor          how operators say them          prim      PrimFunc: a fused group as stages
    simplify_prim   canonical form                  workload  its text and hash
    nest            a PrimFunc with a schedule applied
    procedure       a PrimFunc given as statements: scans, sorts, scatters
    intrinsics      loops that machine instructions run
    parser, verify, evaluate, interpret             read it, check it, say what it means
"""
