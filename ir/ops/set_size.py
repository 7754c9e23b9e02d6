"""Sizes that data decides: the value of an int64 scalar becomes a symbolic size.

The types and attributes of what follows, to the end of the block, may have the size in them: it is
what ``match_cast`` is in Relax. Its upper bound says how much memory there must be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..dims import Dim, Symbol, bounds
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..traits import Trait


def symbol_of(size: object) -> Symbol:
    """Returns the symbol that an attribute is; LoopwrightValueError for anything else."""
    if isinstance(size, Dim) and len(size.terms) == 1:
        ((atoms, coefficient),) = size.terms
        if coefficient == 1 and len(atoms) == 1 and isinstance(atoms[0], Symbol):
            return atoms[0]
    raise LoopwrightValueError(f"{size} is not a symbolic size")


def _infer(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    if len(types) != 1:
        raise LoopwrightTypeError(f"set_size: takes 1 operand, not {len(types)}")
    if types[0] != TensorType((), INT64):
        raise LoopwrightTypeError(f"a size is an int64 scalar, not {types[0]}")
    symbol, inside = symbol_of(attrs["size"]), bounds(attrs["most"], {})
    if symbol.low != 0 or symbol.high is None or inside is None or inside[1] > symbol.high:
        raise LoopwrightValueError(
            f"the range of {symbol} is not from 0 to {attrs['most']} or more"
        )
    return types[0]


def _reference(arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    value = int(arrays[0])
    if not 0 <= value <= (attrs["most"] if isinstance(attrs["most"], int) else value):
        raise LoopwrightValueError(f"a size is {value}, and at most {attrs['most']}")
    return arrays[0]


def _samples(_rng: np.random.Generator) -> Sequence[Sample]:
    from ..dims import size

    return [Sample((np.array(3),), {"size": size("s", 0, 8), "most": 8})]


_DOC = """A symbolic size gets the value of a scalar.

The operand is an int64 scalar from 0 to ``most``, and so is the result. LoopwrightTypeError for
another operand, LoopwrightValueError where the range of the size is another one.

    fn[s in 0..8](%count: Tensor[(), int64]) -> Tensor[(), int64] {
      set_size(%count, size=s, most=8)
    }
"""

register(
    Operator(
        name="set_size",
        doc=_DOC,
        params=("count",),
        pattern=Pattern.OPAQUE,
        infer=_infer,
        reference=_reference,
        samples=_samples,
        attrs=(
            Attr("size", "the symbolic size", kind="Any"),
            Attr("most", "its upper bound, an expression over sizes", kind="Any"),
        ),
        traits=Trait.LIBRARY | Trait.SETS_SIZE,
    )
)
