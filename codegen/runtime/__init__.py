"""What compiled code needs while it runs; knows nothing of how it was made.

- ``pool``, ``pool_text``          the thread pool behind ``lw_parallel_for``
- ``blas``                         NumPy's own BLAS, as symbols that kernels may call
- ``executable``                   a native entry as a Python callable on arrays
- ``native_call``, ``call_text``   its call path, a builtin function of native code
- ``buffers``                      memory of results and arenas, recycled
"""
