"""Tuning that is killed again and again loses nothing: ``python -m bench.kills``."""
