"""A whole model: its inputs become parameters, its outputs the results of ``main``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, TypeProto, ValueInfoProto

from ....ir.dims import IntExpr, size_symbols, typical
from ....ir.dtype import Array, dtype_of
from ....ir.errors import (
    LoopwrightError,
    LoopwrightTypeError,
    LoopwrightValueError,
    UnsupportedError,
)
from ....ir.graph.nodes import Atom, Module
from ....ir.graph.requirements import collecting
from ....ir.graph.types import TensorType
from ...core.argument_specs import Spec, size_of
from ...core.emitting import lift
from ...core.proxy import Proxy
from ...core.trace import Trace, tracing
from .places import Places
from .reader import Model, read_model
from .survey import check
from .table import Value
from .tensors import dtype_name, numpy_dtype
from .walk import Walk

Source: TypeAlias = str | Path | bytes | ModelProto
"""A model: the path of a file, its bytes, or what they hold."""

Shapes: TypeAlias = "Mapping[str, Any]"
"""Shapes, or specs, of inputs by name."""


Constants: TypeAlias = Mapping[str, ArrayLike]
"""Values of inputs by name."""


def convert(
    source: Source, shapes: Shapes | None = None, constants: Constants | None = None
) -> tuple[Module, str, list[Path]]:
    """Returns the module of a model, the model's name, and the files beside it that were read.

    ``shapes`` gives sizes of inputs by name, where the model leaves them open: numbers, or names of
    symbolic sizes. ``constants`` gives
    values of inputs, which are none of the module's then. Results of ``main`` have the names of the
    model's outputs.
    """
    model = read_model(source)
    check(model)
    given = {name: np.asarray(value) for name, value in (constants or {}).items()}
    types = _input_types(model, shapes or {}, given)
    places = Places(model.file, model.graph, model.functions.values())
    trace = Trace(Path(model.file).stem)
    trace.names = {}
    sizes = size_symbols(*(size for type in types.values() for size in type.shape))
    trace.sizes = {size.name: typical(size.expr) for size in sizes.values()}
    with tracing(trace), collecting() as required:
        walk = Walk(model, trace, places)
        names: dict[str, Value] = dict(given)
        for name, type in types.items():
            names[name] = Proxy(trace.param(name, type, name), trace)
        values = walk.graph(model.graph, names)
        outputs = tuple(each.name for each in model.graph.output)
        results = [_result(model, *each) for each in zip(outputs, values, strict=True)]
    result = results[0] if len(results) == 1 else trace.builder.make_tuple(results)
    attrs = {"outputs": outputs}
    main = trace.builder.function(result, attrs=attrs, requirements=required)
    return Module({"main": main}), trace.name, model.folder.files


def input_names(source: Source) -> list[str]:
    """Returns the names of a model's inputs, in order."""
    return [each.name for each in _inputs(read_model(source))]


def _inputs(model: Model) -> list[ValueInfoProto]:
    """Returns the inputs; old models list their initializers among them."""
    initializers = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in initializers]


def _result(model: Model, name: str, value: Value) -> Atom:
    """Returns an output as the module's result. Raises UnsupportedError if it is not an array."""
    what = "a sequence"
    if type(value) is Proxy or isinstance(value, np.ndarray):
        try:
            return lift(value).atom
        except LoopwrightTypeError:
            what = f"a tensor of {value.dtype}"
    raise UnsupportedError(f"output {name!r} of {model.file} is {what}")


def _input_types(
    model: Model, shapes: Shapes, constants: Mapping[str, Array]
) -> dict[str, TensorType]:
    """Returns the types of the inputs by name. Raises one error for all sizes that are unknown."""
    inputs = _inputs(model)
    unknown = {*shapes, *constants} - {each.name for each in inputs}
    if unknown:
        raise LoopwrightValueError(
            f"{model.file} has no input {min(unknown)!r}; its inputs are "
            f"{', '.join(each.name for each in inputs) or 'none'}"
        )
    types: dict[str, TensorType] = {}
    open_inputs: list[str] = []
    for each in inputs:
        if each.name in constants:
            continue
        kind = _tensor_type(model, each)
        shape = _shape(each, kind, shapes.get(each.name))
        _check_dtype(each, kind, shapes.get(each.name))
        if shape is None:
            open_inputs.append(f"{each.name} : {_declared(kind)}")
            continue
        types[each.name] = TensorType(shape, _dtype(model, each, kind))
    if open_inputs:
        name, _, declared = open_inputs[0].partition(" : ")
        dtype, _, sizes = declared.partition("[")
        example = f"{dtype}[{', '.join(s if s.isdigit() else '1' for s in sizes[:-1].split(', '))}]"
        raise LoopwrightTypeError(
            f"{model.file} leaves sizes of its inputs open",
            notes=tuple(open_inputs),
            hint=f"--arg '{name}={example.replace(' ', '')}', or shapes={{{name!r}: (...)}} of "
            "lw.from_onnx",
        )
    return types


def _tensor_type(model: Model, each: ValueInfoProto) -> TypeProto.Tensor:
    kind = each.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "no type").removesuffix("_type")
        raise UnsupportedError(f"input {each.name!r} of {model.file} is of type {what}")
    return each.type.tensor_type


def _dtype(model: Model, each: ValueInfoProto, kind: TypeProto.Tensor) -> Any:
    try:
        return dtype_of(numpy_dtype(kind.elem_type))
    except (TypeError, UnsupportedError):
        raise UnsupportedError(
            f"input {each.name!r} of {model.file} has elements of {dtype_name(kind.elem_type)}"
        ) from None


def _shape(each: ValueInfoProto, kind: TypeProto.Tensor, given: Any) -> tuple[IntExpr, ...] | None:
    """Returns the shape of an input; None if the model and ``given`` leave a size open."""
    declared = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
    if given is None:
        if not kind.HasField("shape") or any(size is None or size < 0 for size in declared):
            return None
        return tuple(size for size in declared if size is not None)
    sizes = tuple(given.shape) if isinstance(given, Spec) else tuple(given)
    try:
        sizes = tuple(map(size_of, sizes))
    except LoopwrightError:
        raise LoopwrightValueError(
            f"the sizes of input {each.name!r} are {sizes}, not ints or names"
        ) from None
    fits = len(sizes) == len(declared) and all(
        old in (None, -1, new) for old, new in zip(declared, sizes)
    )
    if kind.HasField("shape") and not fits:
        raise LoopwrightValueError(
            f"input {each.name!r} is {_declared(kind)} and cannot have the shape {sizes}"
        )
    return sizes


def _check_dtype(each: ValueInfoProto, kind: TypeProto.Tensor, given: Any) -> None:
    """Raises LoopwrightTypeError if a spec of an input has not its dtype."""
    if isinstance(given, Spec) and given.dtype != numpy_dtype(kind.elem_type):
        raise LoopwrightTypeError(f"input {each.name!r} is {_declared(kind)}, not {given}")


def _declared(kind: TypeProto.Tensor) -> str:
    """Returns a declared type as a spec: ``f32[batch, 3, ?]``."""
    try:
        name = dtype_of(numpy_dtype(kind.elem_type)).short
    except (TypeError, UnsupportedError):
        name = dtype_name(kind.elem_type)
    if not kind.HasField("shape"):
        return f"{name}[...]"
    sizes = [
        str(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?"
        for d in kind.shape.dim
    ]
    return f"{name}[{', '.join(sizes)}]"
