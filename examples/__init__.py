"""Programs to read and run: ``make demo``, or any of these files through ``loopwright``."""
