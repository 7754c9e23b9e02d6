"""Explains what was compiled and tuned: profiles, ``explain``, memory, the report of a log."""
