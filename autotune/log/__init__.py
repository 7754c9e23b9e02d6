"""Tuning logs: what was measured and decided, in JSON lines that are appended to.

- ``record``, ``decision``, ``note``   the kinds of lines; ``line`` reads one, or says why not
- ``tuning_log``   a log that is written; ``log_index`` as a compile reads it; ``log_file`` the file
- ``lookup``       which record serves a kernel best
- ``journal``      what a search writes of itself
"""
