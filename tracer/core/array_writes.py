"""An array gets other elements: in its storage, and in all arrays that it is a part of.

A write puts the new value into the values of all arrays that the written one is a view of, up to
the storage, and gives the storage a new version. Whatever else sees that storage reads it anew.
"""

from __future__ import annotations

import numpy as np

from ...ir.dims import IntExpr
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.nodes import Atom
from ...ir.graph.types import TensorType
from ..memory.regions import Region, Update, shape_of, write_region
from ..memory.scope import unclear_names
from ..memory.storage import Kind, Reference, View
from . import misuse
from .proxy import Proxy
from .trace import TracedAnewError


def write(target: Proxy, value: Proxy, what: str) -> None:
    """Gives the array ``target`` the elements of ``value``, of its shape and dtype.

    Raises where NumPy does; ``what`` is what NumPy calls the array there.
    """
    check_writeable(target, what)
    target.owner.memory.changed = True
    atom = value.atom
    if atom is target.atom:
        _note(target)
        return
    node: Reference = target
    chain: list[tuple[Reference, Atom]] = [(node, atom)]
    while (alias := node.alias) is not None:
        atom = _scattered(alias, node.atom, atom)
        node = alias.parent
        chain.append((node, atom))
    trace = target.owner
    trace.assign(target.storage, atom)
    for proxy, seen in chain:
        # A view whose elements at an index were written reads them from the storage: one array is
        # changed, not two, so that the change may be in place.
        update = trace.updates.get(seen)
        if proxy.alias is None or update is None or update.region.is_static:
            proxy.remember(seen)
    _note(target)


def _note(target: Proxy) -> None:
    """Records where an argument is written first."""
    trace, operand = target.owner, target.storage.operand
    if operand is not None:
        trace.memory.written.setdefault(operand, trace.span)


def check_writeable(target: Proxy, what: str) -> None:
    """Raises where NumPy refuses the write, or where it is not certain which arrays it changes."""
    node: Reference = target
    certain = True
    memory, storage = target.owner.memory, target.storage
    while (alias := node.alias) is not None:
        if alias.readonly and certain:
            raise LoopwrightValueError(f"{what} is read-only", hint=alias.readonly)
        certain = certain and alias.certain
        node = alias.parent
    if storage.kind is Kind.CAPTURED:
        target.owner.writes_numpys = True
        raise misuse.captured_write()
    if storage.kind is Kind.SCALAR:
        raise LoopwrightTypeError(f"{what} is a scalar, which cannot be changed")
    if storage in target.owner.listed:  # and is an element of the list, too
        target.owner.wanted.add(target.owner.listed[storage])
        raise TracedAnewError
    for chosen, others in ((ref(), others) for ref, others in memory.alike):
        if chosen is not None and (chosen.storage is storage or storage in others):
            raise unclear_names()
    unsure = (ref() for ref in memory.unsure)
    if not certain or any(p is not None and p.storage is storage for p in unsure):
        raise UnsupportedError(
            "this changes an array that was reshaped, and whether NumPy made a view or a copy of "
            "it depends on how it lies in memory",
            hint="a .copy() of what was reshaped",
        )


def _scattered(view: View, old: Atom, new: Atom) -> Atom:
    """The value of a view's parent once the view, which had the value ``old``, has ``new``."""
    parent = view.parent
    trace, whole = parent.owner, parent.atom
    if view.name in ("real", "imag"):
        kept = trace.emit("imag" if view.name == "real" else "real", (whole,), {})
        return trace.emit("complex", (new, kept) if view.name == "real" else (kept, new), {})
    if view.name == "bitcast":
        assert isinstance(whole.type, TensorType)
        return trace.emit("bitcast", (new,), {"dtype": whole.type.dtype.name})
    update = trace.updates.get(new)
    if update is not None and update.base is old:
        moved = _in_parent(view, update)
        if moved is not None:
            return write_region(trace, whole, *moved, update.reduction)
    if view.region is not None:
        return write_region(trace, whole, new, view.region)
    return _moved_back(view, new, parent.shape)


def _in_parent(view: View, update: Update) -> tuple[Atom, Region] | None:
    """Returns what an update of a view writes to its parent, and where; None if that is not one
    region."""
    trace, parent = view.parent.owner, view.parent
    value, region, seen = update.value, update.region, shape_of(update.base)
    if view.region is not None:
        return value, region.inside_of(trace, view.region, parent.shape)
    match view.name:
        case "reverse":
            moved = region.mirrored(view.attrs["axis"], parent.shape)
        case "transpose":
            moved = region.permuted(view.attrs["axes"])
        case _:
            moved = region.with_ones(seen, parent.shape)
    if moved is None or not shape_of(value):
        return None if moved is None else (value, moved)
    if shape_of(value) != region.shape:
        value = trace.emit("broadcast_to", (value,), {"shape": region.shape})
    if view.name != "transpose":
        return _moved_back(view, value, moved.shape), moved
    front = len(region.index_shape)
    before = [view.attrs["axes"][n] for n, _ in region.runs]  # axes of the parent
    order = [front + before.index(n) for n, _ in moved.runs]
    if order != sorted(order):
        value = trace.emit("transpose", (value,), {"axes": (*range(front), *order)})
    return value, moved


def _moved_back(view: View, value: Atom, shape: tuple[IntExpr, ...]) -> Atom:
    """``value`` of the view as the parent has it; ``shape`` is its shape there."""
    trace = view.parent.owner
    match view.name:
        case "transpose":
            axes = view.attrs["axes"]
            return trace.emit("transpose", (value,), {"axes": tuple(np.argsort(axes).tolist())})
        case "reverse":
            return trace.emit("reverse", (value,), view.attrs)
        case _:
            return trace.emit("reshape", (value,), {"newshape": shape})
