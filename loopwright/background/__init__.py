"""Tuning while the program runs: ``@lw.compile(tune="background")``."""
