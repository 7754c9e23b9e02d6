"""Python functions to graph IR: run once on proxies, and write down what is done to them.

::

    specs        lw.f32[64, 784]: an argument without its values
    pytree       nested arguments and results, taken apart and put together
    arguments    what a call hands over: arrays to trace, static values; the cache's key
    write_back   results into the arguments that a function changes
    quickkey     the same key for calls seen before, in a microsecond
    function     trace(): the function's run on proxies, and its module

    proxy        the traced array; run (errors get the user's line)
    emitting     lift, emit: values and operators as proxies
    storage      the memory that arrays share, and the views they are of it
    layout       the strides NumPy would give an array
    slices       slices of values read and written in the graph
    writing      in-place operators, out=, assignment
    trace        one run: its builder, captured arrays, origins of values
    promotion    NumPy 2's dtypes, as casts
    dispatch     which function of ours stands for which of NumPy's; filled by
                 ufuncs, elementwise, reductions, shaping, joining, indexing, linear, creation
    fits, bounds what calls ask of Python ints, and of indices where that is wanted
    frozen       what traces read that calls will not: random numbers, globals
    operators    Python's operators
    receivers    arrays of NumPy's that are handed traced arguments: table[ids]
    parameters   what the parameters of nn take
    xp, nn       the same as an Array API namespace; what neural networks need besides

    spans        the user's line and columns
    misuse       what traced arrays cannot do, and what to write instead
    hints        a way out that the operands' types show
    explain      all of it put into an error
"""

from . import (
    creation,
    elementwise,
    indexing,
    joining,
    linear,
    nn,
    operators,
    reductions,
    shaping,
    ufuncs,
    writing,
    xp,
)
from .arguments import Arguments, ArraySpec, Request, bind, signature_of, to_array
from .borrowed import Borrowed
from .explain import cut_traceback, is_ours
from .frozen import Watch
from .function import Traced, located, trace
from .proxy import Proxy
from .quickkey import any_traced, quick_key
from .specs import SPEC_DTYPES, DTypeSpec, Spec, parse_spec
from .tree_code import reader
from .write_back import check, check_bounds, placements, write_back

__all__ = [
    "Arguments",
    "ArraySpec",
    "Borrowed",
    "DTypeSpec",
    "Proxy",
    "Request",
    "SPEC_DTYPES",
    "Spec",
    "Traced",
    "Watch",
    "any_traced",
    "bind",
    "check_bounds",
    "check",
    "creation",
    "cut_traceback",
    "elementwise",
    "is_ours",
    "indexing",
    "joining",
    "linear",
    "located",
    "nn",
    "operators",
    "parse_spec",
    "placements",
    "quick_key",
    "reader",
    "reductions",
    "shaping",
    "signature_of",
    "to_array",
    "trace",
    "ufuncs",
    "write_back",
    "writing",
    "xp",
]
