"""Looking into code that is wrong: ``lw.debug``.

::

    callback      calls of Python on the way of compiled code: the progress of a loop
    print         values, printed when compiled code comes to a line
    check         a condition that compiled code tests there, with a message of values
    breakpoint    Python's debugger there
    find_nan      the first operation that makes a nan of numbers
    compare       the first operation whose compiled result is wrong
    write_repro   a file that shows a failure, wrong results or slow code without the user's program
"""

from .callback import callback
from .compare import Comparison, Finding, OperationError, compare
from .difference import Difference, Place
from .looking import breakpoint, check, print
from .nan import NotFinite, find_nan
from .repro import Repro
from .write import write_repro

__all__ = [
    "Comparison",
    "Difference",
    "Finding",
    "OperationError",
    "NotFinite",
    "Place",
    "Repro",
    "breakpoint",
    "callback",
    "check",
    "compare",
    "find_nan",
    "print",
    "write_repro",
]
