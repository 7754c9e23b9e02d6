"""Tuning logs: measurements and decisions, in JSON lines that are appended to.

- ``decision``, ``note``   kinds of lines beside the records (``autotune/record.py``)
- ``tuning_log``   a log that is written; ``log_index`` the same for reading in a compile
- ``log_file``     opening, locking and reading the file
- ``lookup``       the record that serves a kernel best
- ``journal``      the notes that a search writes about itself
"""
