"""Control flow on values: branches, loops, and functions that call themselves.

::

    branches    cond, switch
    loops       while_loop, fori_loop, scan, map
    functions   function: the decorator
    references  ref: a variable that they share

    eager       the same on NumPy's arrays, run by Python: what compiled code means
    traced      the same as blocks of the graph, for proxies
    leaves      the types of what is carried and returned, and which of them meet
    user        errors get the user's line
"""

from .branches import cond, switch
from .functions import TracedFunction, function
from .loops import fori_loop, map, scan, while_loop

__all__ = [
    "TracedFunction",
    "cond",
    "fori_loop",
    "function",
    "map",
    "scan",
    "switch",
    "while_loop",
]
