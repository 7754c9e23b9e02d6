"""Looking for fast schedules: which candidates to measure next, and when to stop.

- ``tuner``        one task: propose, measure, log, learn
- ``strategies``   by name; ``guided`` is the default, ``strategy`` the base of all
- ``stopping``     the gain to expect of another slice
- ``twins``        candidates whose nests are the same
"""
