"""The commands of ``loopwright``, one file each.

Every command module has the texts of its help, and ``add_arguments(parser)``, which sets ``run`` to
a function from the parsed arguments to an exit code: 0 fine, 1 something is wrong with what was
looked at, 2 the command was not understood (``UsageError``).
"""
