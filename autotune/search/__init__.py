"""Looking for fast schedules: which candidates to measure next, and when to stop.

- ``tuner``        the loop: propose, measure, log, learn
- ``strategies``   by name: ``evolution``, ``annealing``, ``random_search``, ``grid_search``; what
  they share is in ``strategy``
- ``early_stop``   what another round may gain
- ``twins``        candidates whose nests are the same
- ``standins``     stand-ins for all roles, for tests of the loop
"""
