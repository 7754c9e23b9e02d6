"""Looking for fast schedules: which candidates to measure next, and when to stop.

- ``tuner``        one task: propose, measure, log, learn
- ``strategies``   by name: ``guided`` is the default
"""
