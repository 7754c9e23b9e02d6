"""Looking for fast schedules: which candidates to measure next, and when to stop.

- ``tuner``        one task: propose, measure, log, learn
- ``strategies``   by name; ``evolution`` is the default, ``strategy`` the base of all
- ``predicted``    the few candidates that the model rates best
- ``stopping``     the gain to expect of another slice
- ``twins``        candidates whose nests are the same
"""
