"""Small kernels beside the least time that the machine could need for each: ``python -m
bench.limits``.

kernels    what is computed, and how much of what it takes
__main__   measures the kernels, and prints what bounds them
"""
