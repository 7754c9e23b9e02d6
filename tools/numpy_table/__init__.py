"""The table of NumPy's functions that compiled functions may use: docs/numpy.md.

::

    python -m tools.numpy_table           rewrites the page and prints how many functions it has
    python -m tools.numpy_table --missing prints the functions that have neither a row nor a reason

A function is a line in one of the chapters below: ``row(names, uses, limits=...)``. A test tries
each use on arrays of many shapes and dtypes, and compares the page. ``rows`` says what the letters
in a use stand for.

    elementwise     ufuncs, and other functions by element; ufuncs' methods
    reductions      sums, means, extrema, with and without nan
    ordering        sorts, searches, scans, histograms, sets
    shaping         shapes, joining, splitting, padding
    indexing        taking and putting elements
    creation        arrays from nothing
    linear          products, np.linalg
    transforms      np.fft, convolutions, interpolation, polynomials
    methods         methods and attributes of arrays
    unsupported     what cannot be, and why
"""
