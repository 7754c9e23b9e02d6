"""Running candidates: building, checking and timing code that is not trusted yet.

- ``measurer``     candidates to builders and a runner, in processes of their own (``worker``,
  ``worker_process``, ``transport``); ``dask_runner`` on other machines
- ``build_service``, ``run_service``   what those processes do
- ``harness``, ``guarded``, ``places``, ``canary``, ``racing``   timing
- ``reference``, ``probes``, ``store_points``, ``races``   is the result right?
- ``first_use``, ``trial``, ``sandbox``, ``verdicts``   the check before a schedule's first use
"""
