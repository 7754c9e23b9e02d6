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
from ..loop import expr
from ..loop.prim import PrimFunc
from ..loop.tensor import Tensor, index_expr
from .declare import ANY, Element, Reduce, attr, primitive
from .sampling import floats

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
    return "stage.map" if prim.stages[0].combiner is None else "stage.reduce"


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
    from ..loop.widen import widened

    prim = _stage_of(body, sizes)
    if any(a.dtype.itemsize > p.dtype.bytes for a, p in zip(arrays, prim.params, strict=True)):
        prim = widened(prim)  # all float32 is float64, as debug.compare evaluates
    given = {p.name: a for p, a in zip(prim.params, arrays, strict=True)}
    return evaluate_prim(prim, given)[prim.outputs[0]]


def _meaning(_out: TensorType, *operands: Tensor, body: str, sizes: Any) -> Element | Reduce:
    prim = _parsed(body)
    (stage,) = prim.stages
    given = {p.name: x for p, x in zip(prim.params, operands, strict=True)}
    values = {s.name: value for s, value in zip(prim.sizes, sizes, strict=True)}
    names = [a.name for a in (*stage.axes, *stage.reduce_axes)]

    def element(*indices: expr.IndexLike) -> expr.Expr:
        # At once: a size of the caller's may have the name of an axis.
        places: dict[str, expr.IndexLike] = {**dict(zip(names, indices, strict=True)), **values}
        plain = {name: i for name, i in places.items() if isinstance(i, int | Dim)}
        from_data = {name: i for name, i in places.items() if not isinstance(i, int | Dim)}

        def leaf(node: expr.Expr, done: dict[int, expr.Expr]) -> expr.Expr | None:
            if isinstance(node, expr.Index):
                return index_expr(expr.substitute_index(node.value, plain, from_data))
            if not isinstance(node, expr.Read):
                return None
            here = expr.rebuilt_indices(
                node, done, lambda i: expr.substitute_index(i, plain, from_data)
            )
            return given[node.buffer](*here)

        return expr.rewrite(stage.expr, leaf)

    if stage.combiner is None:
        return element
    return Reduce(stage.combiner, tuple(a.at(values).extent for a in stage.reduce_axes), element)


def _declare(name: str, pattern: Pattern, summary: str, stage: str, result: str, body: str) -> None:
    def samples(rng: np.random.Generator) -> list[Sample]:
        return [Sample((floats(rng, (5, 3)),), {"body": body, "sizes": (5, 3)})]

    doc = f"""{summary}

``body`` is a PrimFunc of one stage in the text of a workload, its parameters are the operands, and
``sizes`` are the values of its symbolic sizes. ``lw.prim`` writes such calls. LoopwrightTypeError
for operands of other types.

    fn (%x: Tensor[(4), float32]) -> Tensor[{result}, float32] {{
      {name}(%x, body="(x0: float32[4]) -> {stage}")
    }}
"""

    def meaning(
        out: TensorType, *operands: Tensor, body: str = _BODY, sizes: Any = _SIZES
    ) -> Element | Reduce:
        return _meaning(out, *operands, body=body, sizes=sizes)

    meaning.__doc__ = doc
    declared = primitive(
        name,
        pattern,
        rule=_rule,
        reference=_reference,
        samples=samples,
        dtypes=ANY,
        not_differentiable="rules for tensor expressions of users are missing",
    )
    declared(meaning)


_ROWS = "(x0: float32[n0, n1]) -> out: float32"
_RANGES = "for n0 in 0..99, n1 in 0..99"

_declare(
    "stage.map",
    Pattern.INJECTIVE,
    "The values that a stage maps its operands to.",
    "out: float32[4] { out[i] = x0[3 - i] * 2.0 }",
    "(4)",
    f"{_ROWS}[n1, n0] {_RANGES} {{ out[i, j] = x0[j, i] * 2.0 }}",
)
_declare(
    "stage.reduce",
    Pattern.REDUCTION,
    "The values that a stage reduces its operands to.",
    "out: float32[] { out[] = max(k: 4) x0[k] }",
    "()",
    f"{_ROWS}[n0] {_RANGES} {{ out[i] = max(k: n1) x0[i, k] }}",
)
