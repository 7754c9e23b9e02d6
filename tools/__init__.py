"""Tools that make or evaluate the files shipped with the package, which itself needs none of them.

- ``train``            the cost model; with ``samples`` and ``shipping``
- ``evaluate_model``   its quality on a task it has never seen
- ``elementary``       coefficients of the elementary functions, and their errors
- ``numpy_table``      docs/numpy.md: the functions of NumPy's that compiled functions may use
- ``reading``          the files that one first call runs through
"""
