"""Calls of library functions: what other libraries compute, in NumPy or by users' own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LoopwrightError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.type_rules import tensors
from ..graph.types import TensorType, TupleType, Type
from ..traits import Trait
from .sampling import floats

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition
    from ..graph.nodes import Atom
    from ..graph.vmap import Batch
    from ..library.registry import LibraryFunction


def _function(attrs: Mapping[str, Any]) -> LibraryFunction:
    from ..library.lookup import library_function  # few programs need the table

    return library_function(attrs["function"])


def _infer(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    function = _function(attrs)
    try:
        results = function.rule(tensors(types, None), dict(attrs["options"]))
    except LoopwrightError as error:
        error.message = f"{function.name}: {error.message}"
        error.args = (error.message,)
        raise
    fields = tuple(TensorType(r.shape, r.dtype) for r in results)
    return fields[0] if len(fields) == 1 else TupleType(fields)


def _reference(arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    results = _function(attrs).allocated(arrays, attrs["options"])
    return results[0] if len(results) == 1 else results


def _tangent(step: Step) -> Any:
    from ..graph.derivatives.linear_algebra import tangent_of_call  # loaded when it is needed

    return tangent_of_call(step)


def _transpose(step: Transposition) -> None:
    from ..graph.derivatives.linear_algebra import transpose_call  # loaded when it is needed

    transpose_call(step)


def _samples(rng: np.random.Generator) -> Sequence[Sample]:
    solve = {"function": "numpy.linalg.solve"}
    return [
        Sample((floats(rng, (3, 3), "float64"), floats(rng, (3, 2), "float64")), solve),
        Sample((floats(rng, (4, 1, 2, 2), "float64"), floats(rng, (3, 2, 1), "float64")), solve),
        Sample((floats(rng, (0, 0), "float64"), floats(rng, (0, 5), "float64")), solve),
    ]


def _batched(batch: Batch) -> Atom | None:
    """The function broadcasts over the axes in front of those that it works on, if it says how many
    these are; one of some axes works on the next ones."""
    ranks, options = _function(batch.attrs).ranks, dict(batch.attrs["options"])
    if "axes" in options and len(batch.args) == 1:
        options["axes"] = tuple(axis + 1 for axis in options["axes"])
        attrs = {**batch.attrs, "options": tuple(options.items())}
        return batch.emit("call_library", *batch.args, **attrs)
    if ranks is None:
        return None
    most = max(batch.rank(n) - rank for n, rank in enumerate(ranks))
    args = [batch.aligned(n, most + rank) for n, rank in enumerate(ranks)]
    return batch.emit("call_library", *args, **batch.attrs)


_DOC = """A function of another library, applied to its operands.

The function is one of the table in ``ir/library``: of NumPy, or a user's own (``lw.extern``). It
decides number, shapes and dtypes of operands and results; the result is a tuple if there are
several. LoopwrightValueError if there is no such function.

    fn (%a: Tensor[(3, 3), float64], %b: Tensor[(3, 1), float64]) -> Tensor[(3, 1), float64] {
      call_library(%a, %b, function="numpy.linalg.solve")
    }
"""

register(
    Operator(
        name="call_library",
        doc=_DOC,
        params=("*operands",),
        pattern=Pattern.OPAQUE,
        not_differentiable="a library computes it, or a user's function",
        tangent=_tangent,
        transpose=_transpose,
        infer=_infer,
        reference=_reference,
        samples=_samples,
        attrs=(
            Attr("function", "name of the function", kind="str"),
            Attr("options", "its static arguments, pairs of a name and a value", (), kind="Any"),
        ),
        cost=20_000.0,
        batch=_batched,
        traits=Trait.LIBRARY,
    )
)
