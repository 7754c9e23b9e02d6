"""Algebraic data types: families of dataclasses that compiled code takes, makes and matches.

::

    declare     @lw.data
    family      a sealed family, its constructors and their fields
    region      where the values of a call are while it is traced: an array for each field
    boundary    Python's values to arrays, and back
    value       a value whose constructor is not known while tracing
    patterns    patterns: what they test and bind, and which values no one of several matches

A value is a *reference*, an int64: the number of its row among the values of its constructor, and
the number of the constructor in the lowest bits. Each field of a constructor is an array with a row
for each value, where a field that is data itself has references. So a value is a number for all
that knows numbers - branches, loops, functions that call themselves, derivatives - and code that
reads or makes values reads rows, or writes the next ones.
"""

from .declare import data

__all__ = ["data"]
