"""Looking into code that is wrong: ``lw.debug``.

::

    callback      calls of Python on the way of compiled code: the progress of a loop
    compare       the first operation whose compiled result is wrong
    write_repro   a file that shows a failure, wrong results or slow code without the user's program
"""

from .callback import callback
from .compare import Comparison, Finding, OperationError, compare
from .difference import Difference, Place
from .repro import Repro
from .write import write_repro

__all__ = [
    "Comparison",
    "Difference",
    "Finding",
    "OperationError",
    "Place",
    "Repro",
    "callback",
    "compare",
    "write_repro",
]
