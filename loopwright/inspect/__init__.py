"""Explains what was compiled and tuned: ``explain`` and its roofline, the report of a log."""
