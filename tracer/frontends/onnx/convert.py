"""A whole model: its inputs become parameters, its outputs the results of ``main``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, TypeProto, ValueInfoProto

from ....ir.dims import IntExpr, size_symbols, typical
from ....ir.dtype import dtype_of
from ....ir.errors import (
    LoopwrightError,
    LoopwrightTypeError,
    LoopwrightValueError,
    UnsupportedError,
)
from ....ir.graph.nodes import Atom, Module, Var
from ....ir.graph.requirements import collecting
from ....ir.graph.types import TensorType, TupleType, Type, fields_of
from ...core.argument_specs import Spec, size_of
from ...core.emitting import lift
from ...core.proxy import Proxy
from ...core.symbolic_sizes import check_data_sizes, data_sizes_of
from ...core.trace import Trace, active, tracing
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


Constants: TypeAlias = "Mapping[str, ArrayLike | Sequence[ArrayLike] | None]"
"""Values of inputs by name; None: an optional that is absent."""


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
    given = _constants(model, constants or {})
    types = _input_types(model, shapes or {}, given)
    places = Places(model.file, model.graph, model.functions.values())
    trace = Trace(Path(model.file).stem)
    trace.names = {}
    tensors = [tensor for type in types.values() for tensor in _tensors(type)]
    sizes = size_symbols(*(size for tensor in tensors for size in tensor.shape))
    trace.sizes = {size.name: typical(size.expr) for size in sizes.values()}
    with tracing(trace), collecting() as required:
        walk = Walk(model, trace, places)
        names: dict[str, Value] = dict(given)
        for name, type in types.items():
            names[name] = _proxies(trace.param(name, type, name), trace)
        values = walk.graph(model.graph, names)
        outputs = tuple(each.name for each in model.graph.output)
        results = [_result(model, *each) for each in zip(outputs, values, strict=True)]
    check_data_sizes(trace, required)
    attrs: dict[str, Any] = {"outputs": outputs}
    kinds = [*types.values(), *(result.type for result in results)]
    if any(isinstance(kind, TupleType) for kind in kinds):
        attrs["lists"] = True
    decided = data_sizes_of(trace, [t for result in results for t in _tensors(result.type)])
    if decided:
        attrs["sizes"] = tuple(decided)
        results += [trace.data_sizes[name] for name in decided]
    alone = attrs.keys() == {"outputs"} and len(results) == 1
    result = results[0] if alone else trace.builder.make_tuple(results)
    main = trace.builder.function(result, attrs=attrs, requirements=required)
    return trace.module(main), trace.name, model.folder.files


def _tensors(kind: Type) -> list[TensorType]:
    """Returns the types of the arrays of an input or output, of which a sequence has several."""
    return [tensor for tensor in fields_of(kind) if isinstance(tensor, TensorType)]


def _proxies(var: Var, trace: Trace) -> Value:
    """Returns an input as a value, a sequence as a list."""
    if not isinstance(var.type, TupleType):
        return Proxy(var, trace)
    count = len(var.type.fields)
    return [Proxy(trace.builder.get_item(var, n), trace) for n in range(count)]


def _constants(model: Model, constants: Constants) -> dict[str, Value]:
    """Returns values of inputs: arrays, lists of them for sequences, None for absent optionals."""
    given: dict[str, Value] = dict(constants)
    sequences = {each.name for each in _inputs(model) if _is_sequence(each.type)}
    for name, value in constants.items():
        if name in sequences and isinstance(value, list | tuple):
            given[name] = [np.asarray(each) for each in value]
        elif value is not None:
            given[name] = np.asarray(value)
    return given


def input_names(source: Source) -> list[str]:
    """Returns the names of a model's inputs, in order."""
    return [each.name for each in _inputs(read_model(source))]


def _inputs(model: Model) -> list[ValueInfoProto]:
    """Returns the inputs; old models list their initializers among them."""
    initializers = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in initializers]


def _result(model: Model, name: str, value: Value) -> Atom:
    """Returns an output as the module's result. Raises UnsupportedError if it is not an array, or a
    list of them."""
    if isinstance(value, list):
        trace = active()
        assert trace is not None
        return trace.builder.make_tuple([_result(model, name, each) for each in value])
    what = "an optional without an element"
    if type(value) is Proxy or isinstance(value, np.ndarray):
        try:
            return lift(value).atom
        except LoopwrightTypeError:
            what = f"a tensor of {value.dtype}"
    raise UnsupportedError(f"output {name!r} of {model.file} is {what}")


def _input_types(model: Model, shapes: Shapes, constants: Mapping[str, Value]) -> dict[str, Type]:
    """Returns the types of the inputs by name. Raises one error for all sizes that are unknown."""
    inputs = _inputs(model)
    unknown = {*shapes, *constants} - {each.name for each in inputs}
    if unknown:
        raise LoopwrightValueError(
            f"{model.file} has no input {min(unknown)!r}; its inputs are "
            f"{', '.join(each.name for each in inputs) or 'none'}"
        )
    types: dict[str, Type] = {}
    open_inputs: list[str] = []
    for each in inputs:
        if each.name in constants:
            continue
        kind, given = _tensor_type(model, each), shapes.get(each.name)
        is_sequence = _is_sequence(each.type)
        parts = [given] if not is_sequence else list(given or ())
        sizes = [_shape(each, kind, part) for part in parts]
        for part in parts:
            _check_dtype(each, kind, part)
        if None in sizes or (is_sequence and given is None):
            declared = f"sequence of {_declared(kind)}" if is_sequence else _declared(kind)
            open_inputs.append(f"{each.name} : {declared}")
            continue
        dtype = _dtype(model, each, kind)
        tensors = [TensorType(shape, dtype) for shape in sizes if shape is not None]
        types[each.name] = TupleType(tuple(tensors)) if is_sequence else tensors[0]
    if open_inputs:
        name, _, declared = open_inputs[0].partition(" : ")
        if declared.startswith("sequence"):
            raise LoopwrightTypeError(
                f"{model.file} leaves open how many elements its inputs have",
                notes=tuple(open_inputs),
                hint=f"shapes={{{name!r}: [(...), ...]}} of lw.from_onnx, a shape for each element",
            )
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
    """Returns the type of an input, of the elements if it is a sequence."""
    inner = _of_optional(each.type)
    inner = inner.sequence_type.elem_type if _is_sequence(inner) else inner
    kind = inner.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "no type").removesuffix("_type")
        raise UnsupportedError(f"input {each.name!r} of {model.file} is of type {what}")
    return inner.tensor_type


def _of_optional(kind: TypeProto) -> TypeProto:
    """Returns the type of what an optional holds; any other type as it is."""
    return kind.optional_type.elem_type if kind.HasField("optional_type") else kind


def _is_sequence(kind: TypeProto) -> bool:
    return _of_optional(kind).HasField("sequence_type")


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
    try:
        sizes = tuple(map(size_of, given.shape if isinstance(given, Spec) else given))
    except (LoopwrightError, TypeError):
        raise LoopwrightValueError(
            f"the sizes of input {each.name!r} are {given}, not ints or names"
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
