"""Stages of PrimFuncs that users wrote (``lw.prim``): operators whose meaning is an attribute.

A stage is a PrimFunc of one stage in the text of a workload. What it does is read off that text, so
it fuses with its neighbours as an operator of the same pattern does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..dims import Dim
from ..errors import LoopwrightTypeError
from ..graph.operator import Pattern, Sample
from ..graph.requirements import require
from ..graph.types import TensorType
from ..loop.expr import (
    Expr,
    Index,
    IndexLike,
    Op,
    Read,
    rebuilt_indices,
    rewrite,
    substitute_index,
    walk,
)
from ..loop.prim import PrimFunc
from ..loop.tensor import Tensor, index_expr
from .declare import ANY, Element, Reduce, attr, primitive
from .sampling import floats

__all__ = ["operator_of"]

_BODY = attr("the stage, as the text of a workload")
_SIZES = attr("the values of its symbolic sizes, in their order", ())


@lru_cache(maxsize=256)
def _parsed(body: str) -> PrimFunc:
    from ..loop.workload import parse_workload  # few programs have such stages

    prim = parse_workload(body)
    if len(prim.stages) != 1:
        raise LoopwrightTypeError(f"a stage, not {body!r}")
    return prim


def _stage_of(body: str, sizes: Sequence[Any]) -> PrimFunc:
    prim = _parsed(body)
    if len(sizes) != len(prim.sizes):
        raise LoopwrightTypeError(f"{len(prim.sizes)} sizes, not {len(sizes)}")
    return prim.at({s.name: value for s, value in zip(prim.sizes, sizes, strict=True)})


def operator_of(prim: PrimFunc) -> str:
    """Returns the name of the operator whose pattern is that of a PrimFunc of one stage."""
    (stage,) = prim.stages
    if stage.combiner is None:
        return "stage.map"
    value = stage.expr
    product = isinstance(value, Op) and value.name == "multiply"
    read = {node.buffer for node in walk(value) if isinstance(node, Read)}
    contracts = stage.combiner == "sum" and product and len(read) > 1
    return "stage.contract" if contracts else "stage.reduce"


def _rule(*operands: TensorType, body: str, sizes: Any) -> TensorType:
    prim = _stage_of(body, sizes)
    for size, value in zip(_parsed(body).sizes, sizes, strict=True):
        assert size.low is not None and size.high is not None
        message = f"a size of {value} is not in {size.low}..{size.high}"
        if not (
            require(size.low, "<=", value, message) and require(value, "<=", size.high, message)
        ):
            raise LoopwrightTypeError(message)
    if len(operands) != len(prim.params):
        raise LoopwrightTypeError(f"{len(prim.params)} operands, not {len(operands)}")
    for given, param in zip(operands, prim.params, strict=True):
        wanted = TensorType(param.shape, param.dtype)
        message = f"{given.short} is given for {wanted.short}"
        fits = given.dtype == wanted.dtype and given.rank == wanted.rank
        if not fits or not all(
            require(a, "==", b, message) for a, b in zip(given.shape, wanted.shape, strict=True)
        ):
            raise LoopwrightTypeError(message)
    (result,) = prim.output_buffers
    return TensorType(result.shape, result.dtype)


def _reference(*arrays: Any, body: str, sizes: Any) -> Any:
    from ..loop.evaluate import evaluate_prim

    prim = _stage_of(body, sizes)
    given = {p.name: a for p, a in zip(prim.params, arrays, strict=True)}
    return evaluate_prim(prim, given)[prim.outputs[0]]


def _meaning(out: TensorType, *operands: Tensor, body: str, sizes: Any) -> Element | Reduce:
    prim = _parsed(body)
    (stage,) = prim.stages
    given = {p.name: x for p, x in zip(prim.params, operands, strict=True)}
    values = {s.name: value for s, value in zip(prim.sizes, sizes, strict=True)}
    names = [a.name for a in (*stage.axes, *stage.reduce_axes)]

    def element(*indices: IndexLike) -> Expr:
        # At once: a size of the caller's may have the name of an axis.
        places: dict[str, IndexLike] = {**dict(zip(names, indices, strict=True)), **values}
        plain = {name: i for name, i in places.items() if isinstance(i, int | Dim)}
        from_data = {name: i for name, i in places.items() if not isinstance(i, int | Dim)}

        def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
            if isinstance(node, Index):
                return index_expr(substitute_index(node.value, plain, from_data))
            if not isinstance(node, Read):
                return None
            here = rebuilt_indices(node, done, lambda i: substitute_index(i, plain, from_data))
            return given[node.buffer](*here)

        return rewrite(stage.expr, leaf)

    if stage.combiner is None:
        return element
    return Reduce(stage.combiner, tuple(a.at(values).extent for a in stage.reduce_axes), element)


_ROWS = "x0: float32[n0, n1]"
_RANGES = "for n0 in 0..99, n1 in 0..99"
_EXAMPLES = {
    "stage.map": (
        Pattern.INJECTIVE,
        "Returns the values that a map gives.",
        f"({_ROWS}) -> out: float32[n1, n0] {_RANGES} {{ out[i, j] = x0[j, i] * 2.0 }}",
        "(3, 2)",
    ),
    "stage.reduce": (
        Pattern.REDUCTION,
        "Returns the values that a reduction gives.",
        f"({_ROWS}) -> out: float32[n0] {_RANGES} {{ out[i] = max(k: n1) x0[i, k] }}",
        "(2,)",
    ),
    "stage.contract": (
        Pattern.CONTRACTION,
        "Returns the sums of products that a reduction gives.",
        f"({_ROWS}, x1: float32[n1]) -> out: float32[n0] {_RANGES} "
        "{ out[i] = sum(k: n1) x0[i, k] * x1[k] }",
        "(2,)",
    ),
}


def _declare(name: str, pattern: Pattern, summary: str, body: str, shape: str) -> None:
    both = pattern == Pattern.CONTRACTION
    more, operands = (", %y: Tensor[(3,), float32]", "%x, %y") if both else ("", "%x")

    def samples(rng: np.random.Generator) -> list[Sample]:
        vectors = [floats(rng, (3,))] if both else []
        attrs = {"body": body, "sizes": (5, 3)}
        return [Sample((floats(rng, (5, 3)), *vectors), attrs)]

    doc = f"""{summary}

``body`` is a PrimFunc of one stage in the text of a workload, its parameters are the operands, and
``sizes`` are the values of its symbolic sizes. Written by ``lw.prim``.

    fn (%x: Tensor[(2, 3), float32]{more}) -> Tensor[{shape}, float32] {{
      {name}({operands}, body="{body}", sizes=[2, 3])
    }}
"""

    def meaning(
        out: TensorType, *operands: Tensor, body: str = _BODY, sizes: Any = _SIZES
    ) -> Element | Reduce:
        return _meaning(out, *operands, body=body, sizes=sizes)

    meaning.__doc__ = doc
    primitive(name, pattern, rule=_rule, reference=_reference, samples=samples, dtypes=ANY)(meaning)


for _name, _example in _EXAMPLES.items():
    _declare(_name, *_example)
