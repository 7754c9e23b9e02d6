"""``lw.debug.find_nan``: the first operation that makes a nan of numbers.

The traced graph runs in NumPy, operation by operation, in its own dtypes: nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..face.user_errors import for_user
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError
from ..ir.graph.nodes import Atom, Block, Call, Constant, GlobalVar, Module, Var
from ..ir.graph.operator import Operator
from ..ir.span import Span
from .compare import as_compiled
from .steps import Iteration, lines_of
from .wide import Evaluation, Value, flat


@dataclass(frozen=True, slots=True, eq=False)
class NotFinite:
    """The first operation whose result has a nan (or an infinity, if asked for) that none of its
    operands has.

    ``index`` is the first such element of the result, ``value`` it, ``count`` how many there are.
    ``operands`` are texts, with the value at that element where operand and result have the same
    shape. ``iterations`` are those of the loops around it, the innermost last.
    """

    name: str
    operator: str
    span: Span | None
    value: float
    index: tuple[int, ...]
    count: int
    operands: tuple[str, ...]
    iterations: tuple[Iteration, ...]

    def __str__(self) -> str:
        at = f" at index {', '.join(map(str, self.index))}" if self.index else ""
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        what = f"{self.name}: {self.operator} makes {self.value}{at}{more}"
        operands = [f"  {operand}" for operand in self.operands]
        return "\n".join([what, *lines_of(self.span, self.iterations), *operands])


def find_nan(
    function: Callable[..., Any], *args: Any, infinite: bool = False, **kwargs: Any
) -> NotFinite | None:
    """Finds the first operation of a function that makes a nan of numbers that are none.

    Returns its line, its operands and their values there, and the iterations of the loops around
    it; None if there is none. With ``infinite``, infinities count as well. Results are NumPy's, in
    the dtypes of the function; code that makes a nan where NumPy makes none is wrong, and
    ``lw.debug.compare`` finds it. Raises UnsupportedError for what takes NumPy too long (500,000
    operations, loops counted).

    >>> import numpy as np, loopwright as lw
    >>> def entropy(p):
    ...     return -(p * np.log(p)).sum()
    >>> found = lw.debug.find_nan(entropy, np.array([0.5, 0.0, 0.5]))
    >>> found.operator, found.index, found.operands
    ('multiply', (1,), ('%p: float64[3], 0.0 there', '%0: float64[3], -inf there'))
    """
    compiled, args = as_compiled(function, args, "find_nan")
    try:
        traced, arrays = compiled.traced_with_checks(args, kwargs)
        if arrays is None:
            raise LoopwrightTypeError("lw.debug.find_nan takes arrays, not specs of arrays")
        search = _Search(traced.module, traced.name, infinite)
        with np.errstate(all="ignore"):
            search.call(traced.module.main, arrays)
        return None
    except _FoundError as error:
        return error.nan
    except Exception as error:
        reported = for_user(error)
    raise reported


class _FoundError(Exception):
    def __init__(self, nan: NotFinite) -> None:
        super().__init__()
        self.nan = nan


class _Search(Evaluation):
    """Evaluates until an operation makes a nan."""

    def __init__(self, module: Module, name: str, infinite: bool) -> None:
        super().__init__(module, wide=False)
        self.name, self.infinite = name, infinite

    def bind(self, block: Block, values: dict[Var, Value]) -> None:
        for binding in block.bindings:
            self.count()
            value = values[binding.var] = self.value(binding.value, values)
            call = binding.value
            if isinstance(call, Call) and isinstance(call.op, Operator):
                atoms = [a for a in call.args if not isinstance(a, GlobalVar)]
                given = [a.value if isinstance(a, Constant) else values[a] for a in atoms]
                self._judge(binding.var, call.op.name, atoms, given, value)

    def _judge(
        self,
        var: Var,
        operator: str,
        atoms: Sequence[Var | Constant],
        given: Sequence[Value],
        value: Value,
    ) -> None:
        results = [r for r in flat(value) if r.dtype.kind in "fc"]
        odd = next((r for r in results if self._odd(r).any()), None)
        if odd is None or any(self._odd(a).any() for v in given for a in flat(v)):
            return
        where = np.argwhere(self._odd(odd))
        index = tuple(map(int, where[0]))
        texts = [_described(a, v, index, odd.shape) for a, v in zip(atoms, given)]
        loops = tuple(Iteration(loop.span, number) for loop, number in self.around)
        raise _FoundError(
            NotFinite(
                self.name, operator, var.span, odd[index], index, len(where), tuple(texts), loops
            )
        )

    def _odd(self, array: Array) -> Array:
        if array.dtype.kind not in "fc":
            return np.zeros(array.shape, np.bool_)
        return ~np.isfinite(array) if self.infinite else np.isnan(array)


def _described(atom: Atom, value: Value, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Returns an operand in words: its name and type, and its value at an element of the result."""
    name = f"%{atom.name}: " if isinstance(atom, Var) and atom.name else ""
    if isinstance(value, tuple):
        return f"{name}{len(value)} arrays"
    kind = f"{name}{value.dtype}[{', '.join(map(str, value.shape))}]"
    if value.size == 1:
        return f"{kind}, {value.reshape(())[()]!s}"
    if value.shape == shape:
        return f"{kind}, {value[index]!s} there"
    return kind if not value.size else f"{kind}, from {value.min()!s} to {value.max()!s}"
