"""The error of a command line that cannot be carried out."""


class UsageError(Exception):
    """A request of the user that cannot be carried out: one line, with a way out. Exit code 2."""
