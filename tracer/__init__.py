"""Python functions to graph IR: run once on proxies, and write down what is done to them.

::

    function     trace(): the function's run on proxies, and its module
    write_back, donation                 arguments that a function changes, and ``out=``
    prim, samplers, extern               behind ``lw.prim``, ``lw.random`` and ``lw.extern``

    core/        tracing itself
      argument_specs, pytree, arguments    what a call is given, and the cache's key of it
      trace      one run: its builder, captured arrays, origins of values
      proxy      the traced array; run (errors get the user's line)
      dispatch   which function of ours stands for which of NumPy's
      emitting   values and operators as proxies, with NumPy 2's dtypes
      symbolic_sizes, int_arguments        sizes and Python ints without a value
      captured_values, snapshot            what functions can reach outside of their arguments
      numpy_receivers                      NumPy's own arrays with traced arguments: table[ids]
      spans, error_context, misuse         the user's line, operands and a hint, in an error
    memory/      arrays that share memory, on nothing but the IR
      storage, regions                     views of each other, elements read and written
      scope      what happens to memory in blocks of branches, loops and functions
    numpy/       NumPy's chapters, on both; those that few programs need are loaded late
    control/     branches, loops and recursive functions on traced values
    rewriting/   expressions that need the truth of an array, as NumPy has them
    nn/, frontends/                        networks: what NumPy lacks, and models of others
"""

from .core.argument_specs import SPEC_DTYPES, DTypeSpec, Spec, parse_spec
from .core.arguments import (
    Arguments,
    ArraySpec,
    Request,
    any_traced,
    bind,
    quick_key,
    same_leaves,
    signature_of,
    to_array,
    valued_names,
    without_iterators,
)
from .core.captured_values import Borrowed
from .core.dispatch import LATE
from .core.error_context import cut_traceback, is_ours
from .core.int_arguments import TakenApartAnewError
from .core.proxy import Proxy
from .core.pytree_code import reader
from .function import ValuesNeeded, as_called, trace
from .numpy import (
    assignment,
    complex,
    composed,
    creation,
    element_updates,
    elementwise,
    indexing,
    joining,
    products,
    reductions,
    shaping,
    ufuncs,
)
from .traced import Traced, located
from .write_back import check, placements, write_back


def _load_linalg() -> None:
    from .numpy import linalg


def _load_fft() -> None:
    from .numpy import fft


def _load_more() -> None:
    from .numpy import (
        bits,
        calculus,
        counting,
        data_sizes,
        editing,
        order_statistics,
        ordering,
        padding,
        polynomials,
        statistics,
        ufunc_methods,
    )


def _load_special() -> None:
    from .numpy import special


LATE["numpy.linalg"] = _load_linalg
LATE["numpy.fft"] = _load_fft
LATE["numpy"] = _load_more
LATE["scipy.special"] = _load_special
