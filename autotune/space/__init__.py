"""Which schedules there are for a PrimFunc, and what can be said of each without running it.

- ``rules``      kinds of schedule for a group of stages, with their integer choices
- ``variant``    what is prepared (inlined, cut, laid out anew), and a sketch for each group
- ``space``      all variants and choices of a PrimFunc as arrays of integers, and the default
- ``features``   named numbers for the cost model; with ``core_features``, ``traffic_features``,
  ``footprint_features`` and their names in ``feature_list``
- ``analysis``, ``layouts``, ``least_work``   what rules and limits ask of a PrimFunc
"""
