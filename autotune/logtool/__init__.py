"""Tools for people with tuning logs: list, merge, prune, migrate, verify, compare, export,
replay."""
