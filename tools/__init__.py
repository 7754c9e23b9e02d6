"""What makes or judges the files that ship with the package; the package itself needs none of it.

- ``train``            the cost model; with ``samples`` and ``shipping``
- ``evaluate_model``   how good it is on a task it has never seen
- ``elementary``       coefficients of the elementary functions, and their errors
"""
