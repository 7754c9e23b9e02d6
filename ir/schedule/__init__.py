"""Schedules: data that says how a PrimFunc becomes a loop nest.

::

    steps        the data: printed as Python, logged as JSON
    primitives   what each step means, and when it is illegal      state   decisions so far
    packing, panels   packed operands
    tensorize    loops that a machine instruction runs
    version1     steps that old schedules implied, frozen
    tree, loops, apply  the decisions written as a loop nest      clamp   tiles that lack rows
    procedures   steps on the loops of procedures, where iterations are independent
"""
