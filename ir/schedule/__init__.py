"""Schedules: data that says how a PrimFunc becomes a loop nest.

::

    steps        the data: printed as Python, logged as JSON
    primitives   what each step means, and when it is illegal      state   what has been decided
    borders      primitives for the edges of images          packing, panels   packed operands
    tensorize    loops that a machine instruction runs
    version1     what old schedules left unsaid, frozen
    tree, apply  the decisions written as a loop nest
"""
