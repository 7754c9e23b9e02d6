"""Python functions to graph IR: run once on proxies, and write down what is done to them.

::

    specs        lw.f32[64, 784]: an argument without its values
    pytree       nested arguments and results, taken apart and put together; the same as code
    arguments    the arguments of a call: arrays to trace, static values; the cache's key, and the
                 same key for calls seen before, in a microsecond
    function     trace(): the function's run on proxies, and its module
    write_back   results into the arguments that a function changes

    proxy        the traced array; run (errors get the user's line)
    emitting     lift, emit: values and operators as proxies, with NumPy 2's dtypes
    storage      the memory and strides of arrays, and the views they are of each other
    slices       slices of values read and written in the graph
    places       elements that values choose, read and written in the graph
    value_numbers  which traced values are certainly equal
    writing      in-place operators, out=, assignment
    updating     np.add.at, np.put and their like; x.at[i].add(v)
    scope        blocks of branches, loops and functions, and what happens to memory in them
    trace        one run: its builder, captured arrays, origins of values
    dispatch     which function of ours stands for which of NumPy's; filled by
                 ufuncs (rows of tables), composed (functions written in NumPy), elementwise,
                 reductions, ordering, shaping, joining, indexing, linear, creation, complex; and,
                 loaded at their first use, linalg, fft, order_statistics, counting
    int_arguments  Python ints whose values a trace needs, and checks that they fit dtypes
    frozen       values that traces read once and calls will not: random numbers, globals, weights
    snapshot     what functions can reach outside of their arguments: changes, and the way back
    receivers    arrays of NumPy's that are handed traced arguments: table[ids]
    parameters   conversion of the arguments of nn
    converting   np.asarray, np.array, np.r_ of traced arrays
    random       samplers of lw.random
    control      branches, loops and recursive functions on traced values
    extern       functions that are called as they are, from compiled code
    nn           functions for neural networks that NumPy lacks

    spans        the user's line and columns
    rewriting    the user's if, while and for as lw.cond, lw.while_loop and lw.fori_loop
    misuse       errors for what traced arrays cannot do, and what to write instead
    explain      the user's line, operands and a hint, put into an error
"""

from . import (
    complex,
    composed,
    creation,
    elementwise,
    indexing,
    joining,
    linear,
    ordering,
    reductions,
    shaping,
    ufuncs,
    updating,
    writing,
)
from .arguments import (
    Arguments,
    ArraySpec,
    Request,
    any_traced,
    bind,
    quick_key,
    signature_of,
    to_array,
    valued_names,
    without_iterators,
)
from .dispatch import LATE
from .explain import cut_traceback, is_ours
from .frozen import Borrowed
from .function import Traced, ValuesNeeded, located, trace
from .proxy import Proxy
from .snapshot import Snapshot
from .specs import SPEC_DTYPES, DTypeSpec, Spec, parse_spec
from .tree_code import reader
from .write_back import check, placements, write_back


def _load_linalg() -> None:
    from . import linalg


def _load_fft() -> None:
    from . import fft


def _load_more() -> None:
    from . import (
        bits,
        calculus,
        counting,
        editing,
        order_statistics,
        padding,
        polynomials,
        sized,
        statistics,
        ufunc_methods,
    )


def _load_special() -> None:
    from . import special


LATE.update(
    {
        "numpy.linalg": _load_linalg,
        "numpy.fft": _load_fft,
        "numpy": _load_more,
        "scipy.special": _load_special,
    }
)
