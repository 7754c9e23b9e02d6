"""The schedules of a PrimFunc, and features of them that need no run.

- ``rules``      kinds of schedule for a group of stages, with their integer choices
- ``sketch``     schedules with knobs, by rules of users or built-in ones
- ``tiling``     how a rule's sketch tiles loops, as numbers
- ``variant``    preparing steps (inlined stages, other layouts), and a sketch for each group
- ``space``      all variants and choices of a PrimFunc as arrays of integers, and the default
- ``loop_arrays`` populations as arrays of loops, made by applying steps to all rows at once
- ``core_cycles`` cycles of a core, from those arrays
- ``estimate``   bytes moved, the time from both, and the choices of which it is least
- ``features``   named numbers for the cost model, from the same; ``feature_list`` has their names
- ``settings``   limits and preferences of rules and features
- ``analysis``, ``least_work``   properties of a PrimFunc that rules and limits need
"""
