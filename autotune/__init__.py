"""The search engine: finds fast schedules by measuring them, and keeps them in tuning logs.

- ``space``     the schedules offered for a kernel: rules, knobs, features
- ``model``     the cost model, which ranks schedules that were not measured
- ``search``    strategies that propose candidates, and the loop that tunes one kernel
- ``measure``   building, checking and timing candidates in processes of their own
- ``log``       records and decisions in files, and which of them serves a kernel best
- ``selection`` the schedule of a kernel at compile time
- ``program``   tuning all kernels of a program: which of them gets the next candidates
- ``logtool``   tools for people with logs
- ``ranges``    the sizes at which a kernel with symbolic sizes is looked at
- ``record``    what was measured, as a line of a log (``record_line``)
- ``request``, ``budget``, ``settings``, ``comparison``, ``protocols``, ``task``   common terms

A ``Task`` has a ``SearchSpace``, whose candidates are rows of integers. A strategy proposes rows
that the cost model ranks high, a ``Measurer`` turns each into a ``MeasureRecord``, the
``TuningLog`` keeps it, and the model learns from it. Compiling needs only ``log_index``, ``lookup``
and ``selection``.
"""
