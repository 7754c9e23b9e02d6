"""Schedules: data that says how a PrimFunc becomes a loop nest.

::

    schedule     the data: printed as Python, logged as JSON, and how a primitive is declared
    primitives   what steps on loops mean, and when they are illegal    state   decisions so far
    rows         the loops of many schedules at once                    steps   all primitives
    packing, panels   packed operands
    tensorize    loops that a machine instruction runs
    version1     steps that old schedules implied, frozen
    tree, loops, apply  the decisions written as a loop nest      clamp   tiles that lack rows
    procedures   steps on the loops of procedures, where iterations are independent
"""
