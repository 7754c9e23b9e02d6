"""What people do with logs: list, compare, export, merge, repair, repeat."""
