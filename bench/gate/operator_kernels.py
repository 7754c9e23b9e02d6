"""Kernels of every registered operator, drawn from its samples: an operator that is declared is
drawn without being named here.

A draw takes a sample, gives its operands other sizes and dtypes where the operator's type rule
allows them, may put elementwise operators, casts and reductions before and behind it, and lowers
the graph as a compile does. So there are kernels of sorts, scans, scatters, recurrences, random
numbers, pairs of floats for complex numbers, halves, and results that begin as a parameter, as soon
as there is an operator of such a kind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module, preferences_of
from loopwright.ir.dims import as_int
from loopwright.ir.dtype import DTYPES, DType, dtype_of
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Atom, Constant, Module
from loopwright.ir.graph.operator import Operator, Pattern
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.procedure import Procedure, executions
from loopwright.ir.ops import all_operators, get
from loopwright.ir.traits import Trait

__all__ = ["KINDS", "MAX_WORK", "draw_kernels", "draw_kind", "work_of"]

KINDS = tuple(
    name for name, op in all_operators().items() if not op.traits & (Trait.LIBRARY | Trait.UNSET)
)
"""The operators that become kernels: all of them but those that a library computes, and what
computes nothing."""

MAX_WORK = 120_000  # scalar evaluations of a kernel
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 20, 31, 32, 33, 48, 65, 100, 130)
MOST_ELEMENTS = 20_000  # of an operand
TRIES = 8
"""Sizes and dtypes tried until the type rule accepts some."""
ELEMENTWISE_SHARE = 0.25
"""Share of elementwise operators, of which there are many that differ in their arithmetic only."""


def draw_kind(rng: random.Random) -> str:
    """Returns the name of an operator that becomes kernels."""
    elementwise = rng.random() < ELEMENTWISE_SHARE
    return rng.choice([k for k in KINDS if (get(k).pattern <= Pattern.BROADCAST) == elementwise])


def draw_kernels(rng: random.Random, kind: str) -> list[PrimFunc]:
    """Returns the kernels of one drawn graph around the operator ``kind``, of at most ``MAX_WORK``
    scalar evaluations each; none if the operator becomes part of no kernel there."""
    op = get(kind)
    sample = rng.choice(op.samples(np.random.default_rng(rng.randrange(1 << 30))))
    arrays: Sequence[Any] = sample.args
    attrs: dict[str, Any] = dict(sample.attrs)
    for _ in range(TRIES):
        changed = _changed(rng, sample.args, sample.attrs)
        if changed is not None and _is_accepted(op, *changed):
            arrays, attrs = changed
            break
    prims: list[PrimFunc] = []
    for plain in (False, True):  # what stands beside the operator may not fit its result
        try:
            module = _module(rng, op, arrays, attrs, plain)
            lowered = lower_module(module, preferences_of(None, Target.host()))
            prims = list(kernels_of(lowered).values())
            break
        except LoopwrightError:
            if plain:
                raise
    return [p for p in prims if not p.sizes and 0 < work_of(p) <= MAX_WORK]


def work_of(prim: PrimFunc) -> int:
    """Returns the scalar evaluations of a kernel."""
    if isinstance(prim, Procedure):
        return executions(prim.body)
    return sum(prod(as_int(a.extent) for a in (*s.axes, *s.reduce_axes)) for s in prim.stages)


# -- other sizes and dtypes ------------------------------------------------------------------------

_OTHERS = {"f": "f", "i": "iu", "u": "iu", "b": "b", "c": "c"}


def _changed(
    rng: random.Random, arrays: Sequence[Any], attrs: Any
) -> tuple[list[Any], dict[str, Any]] | None:
    """Returns operands of which each size that occurs, and each dtype, is another one, everywhere.

    Attributes that are a shape are changed with the operands. None if the operands become large.
    """
    seen = sorted({n for a in arrays for n in a.shape if n > 1})
    sizes = {n: rng.choice(SIZES) if rng.random() < 0.8 else n for n in seen}
    if len(seen) > 1 and rng.random() < 0.5:  # only one of them: others may depend on each other
        kept = rng.choice(seen)
        sizes = {n: sizes[n] if n == kept else n for n in seen}
    dtypes = {d: _other_dtype(rng, dtype_of(d)) for d in dict.fromkeys(a.dtype for a in arrays)}
    made: list[Any] = []
    for a in arrays:
        shape = tuple(sizes.get(n, n) for n in a.shape)
        if prod(shape) > MOST_ELEMENTS:
            return None
        values = np.resize(a, shape) if a.size else np.ones(shape, a.dtype)
        with np.errstate(all="ignore"):
            made.append(values.astype(dtypes[a.dtype].numpy))
    shapes = {
        name: tuple(sizes.get(n, n) for n in value)
        if name.endswith("shape") and isinstance(value, tuple)
        else value
        for name, value in attrs.items()
    }
    return made, shapes


def _other_dtype(rng: random.Random, dtype: DType) -> DType:
    if rng.random() < 0.5:
        return dtype
    names = [d.name for d in DTYPES.values() if d.kind in _OTHERS[dtype.kind]]
    if dtype.is_float and find_spec("ml_dtypes") is not None:
        names = sorted({*names, "bfloat16"})
    return dtype_of(rng.choice(names))


def _is_accepted(op: Operator, arrays: Sequence[Any], attrs: dict[str, Any]) -> bool:
    """True if the operator takes such operands, by its type rule."""
    types = tuple(_type_of(a) for a in arrays)
    try:
        result = op.infer(types, op.complete_attrs(attrs))
    except (LoopwrightError, ArithmeticError, LookupError, ValueError):
        return False
    return all(prod(map(as_int, t.shape)) <= MOST_ELEMENTS for t in _tensors(result))


def _type_of(array: Any) -> TensorType:
    return TensorType(tuple(array.shape), dtype_of(array.dtype))


def _tensors(type: Any) -> Iterator[TensorType]:
    if isinstance(type, TensorType):
        yield type
    for field in getattr(type, "fields", ()):
        yield from _tensors(field)


# -- the graph around it ---------------------------------------------------------------------------


def _module(
    rng: random.Random, op: Operator, arrays: Sequence[Any], attrs: dict[str, Any], plain: bool
) -> Module:
    builder = Builder()
    atoms: list[Atom] = []
    for n, array in enumerate(arrays):
        if not plain and rng.random() < 0.15:
            atoms.append(Constant(array))
            continue
        atom: Atom = builder.param(f"x{n}", _type_of(array))
        if not plain and array.dtype.kind in "fc" and rng.random() < 0.3:
            atom = _before(rng, builder, atom)
        atoms.append(atom)
    result: Any = builder.emit(op, atoms, attrs)
    if not arrays:  # what reads nothing is known when the program is compiled
        result = builder.emit(get("maximum"), (builder.param("x", result.type), result))
    fields = [result]
    if not isinstance(result.type, TensorType):
        fields = [builder.get_item(result, n) for n in range(len(result.type.fields))]
    if plain:
        return Module({"main": builder.function(result)})
    view = bool(op.traits & (Trait.VIEW | Trait.BYTES))  # alone it is no kernel
    fields = [_behind(rng, builder, f) if view or rng.random() < 0.6 else f for f in fields]
    if len(fields) == 1 and rng.random() < 0.15:  # the result itself is read by somebody else, too
        fields.append(result)
    whole = fields[0] if len(fields) == 1 else builder.make_tuple(fields)
    return Module({"main": builder.function(whole)})


def _before(rng: random.Random, builder: Builder, atom: Any) -> Atom:
    two = Constant(np.array(0.5, atom.type.dtype.numpy))
    if rng.random() < 0.5 or not atom.type.shape:
        return builder.emit(get("multiply"), (atom, two))
    return builder.emit(get("reverse"), (atom,), {"axis": (len(atom.type.shape) - 1,)})


def _behind(rng: random.Random, builder: Builder, atom: Any) -> Atom:
    dtype: DType = atom.type.dtype
    three = Constant(np.array(3, dtype.numpy))
    choice = rng.randrange(5)
    if dtype.kind == "b":
        return builder.emit(get("logical_not"), (atom,))
    if choice == 0 and dtype.kind != "c":
        return builder.emit(get("cast"), (atom,), {"dtype": rng.choice(["float32", "int32"])})
    if choice == 1 and dtype.kind != "c" and atom.type.shape and 0 not in atom.type.shape:
        axes = (rng.randrange(len(atom.type.shape)),)
        return builder.emit(get(rng.choice(["max", "min", "sum"])), (atom,), {"axis": axes})
    if choice == 2 and len(atom.type.shape) > 1:
        axes = tuple(rng.sample(range(len(atom.type.shape)), len(atom.type.shape)))
        atom = builder.emit(get("transpose"), (atom,), {"axes": axes})
    return builder.emit(get("add"), (atom, three))
