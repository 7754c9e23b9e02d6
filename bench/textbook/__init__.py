"""Programs as textbooks write them: plain Python and NumPy, with loops, branches, lists, recursion.

``programs`` has them, a file per subject, written without a look at what any compiler can do;
``program`` says what one is. Tests run the same ones with small inputs.
"""
