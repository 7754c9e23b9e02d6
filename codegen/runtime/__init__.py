"""The runtime of compiled code; it does not depend on how the code was made.

- ``pool``, ``pool_text``          the thread pool behind ``lw_parallel_for``
- ``executable``                   a native entry as a Python callable on arrays
- ``native_call``, ``call_text``   its call path, a builtin function of native code
- ``buffers``                      recycled memory of results, and arenas
"""
