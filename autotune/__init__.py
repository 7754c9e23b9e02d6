"""The search engine: finds fast schedules, measures them, and remembers them in tuning logs.

::

    task  space  rules/  features                 what is searched: a kernel and its schedules
    search  strategies  evolution  annealing ...  what to try next, as whole-array functions
    cost_model  training  quality  linear_model   what is probably fast (xgboost when it is asked)
    measure  worker*  build_service  run_service  building and running in processes of their own
    reference  probes  turns  guarded  harness    the gate: right results, no races, memory kept
    line  record  decision  note                  one line of a log: an entry, or why it is none
    log_file  log  log_index  contenders          the file, all of its entries, those of a workload
    lookup  logtool                               which of them serves best, and tools for people
    journal  replay                               what a run was, and the same decisions again
    tuner  program_tuner  scheduler  budget       the loop, and where the seconds go
    progress  interrupts  settings                what is shown, how it ends, every number by name
    select  kernels  native_tuning                how the compiler asks: schedules, tasks, tuning

The way round: a ``Task`` has a ``SearchSpace``, rows of integers. A strategy proposes rows that
the cost model likes, a ``Measurer`` turns each into a ``MeasureRecord``, the ``TuningLog`` keeps
it, the model learns from it. Compiling needs only ``log_index``, ``lookup`` and ``select``.
"""
