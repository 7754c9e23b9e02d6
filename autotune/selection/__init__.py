"""The schedules that a compile takes without measuring.

- ``select``          the schedule of a kernel: from logs, of a near shape, or the default
- ``size_cases``      one for ranges of symbolic sizes, of records at points
- ``default_cases``   the default of a kernel with symbolic sizes
"""
