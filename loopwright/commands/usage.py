"""The error of a command line that asks for what cannot be done."""

__all__ = ["UsageError"]


class UsageError(Exception):
    """The user asked for something that cannot be done: one line, with a way out. Exit code 2."""
