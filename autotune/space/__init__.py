"""The schedules of a PrimFunc, and features of them that need no run.

- ``rules``      kinds of schedule for a group of stages, with their integer choices
- ``sketch``     schedules with knobs, by rules of users or built-in ones
- ``tiling``     how loops are tiled, as numbers; ``reading`` reads it off a schedule
- ``variant``    preparing steps (inlined stages, other layouts), and a sketch for each group
- ``space``      all variants and choices of a PrimFunc as arrays of integers, and the default
- ``features``   named numbers for the cost model; with ``core_features``, ``traffic_features``,
  ``footprint_features`` and their names in ``feature_list``
- ``settings``   limits and preferences of rules and features
- ``analysis``, ``layouts``, ``least_work``   properties of a PrimFunc that rules and limits need
"""
