"""Measures candidates: builds, checks and times code that is not trusted yet.

- ``measurer``     candidates to builders and a runner, in processes of their own (``worker``,
  ``worker_process``, ``transport``); ``elsewhere`` does so on other machines
- ``build_service``, ``run_service``   the work of those processes
- ``harness``, ``guarded``, ``placement``, ``canary``, ``racing``   timing
- ``inputs``, ``reference``, ``store_points``, ``data_races``   checking results
- ``first_use``, ``trial``, ``sandbox``, ``verdicts``   the check before a schedule's first use, and
  ``first_race``, which times what is right beside the default
"""
