"""Views whose axes are axes of an array in another order, some of them joined: ``groups`` has the
axes of the array that each axis of the view consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..dims import IntExpr, product

Axes: TypeAlias = tuple[int, ...]
Groups: TypeAlias = tuple[Axes, ...]
Shape: TypeAlias = tuple[IntExpr, ...]


def in_order(groups: Groups) -> bool:
    """True if the elements of the view are in the order of memory."""
    order = [axis for group in groups for axis in group]
    return order == sorted(order)


def regrouped(shape: Shape, groups: Groups, wanted: Shape) -> tuple[Shape, Groups] | None:
    """Returns the view of which an array has the shape ``wanted``, if it is a view of these axes in
    this order; axes are split where a size of ``wanted`` is a part of theirs."""
    left = [(a, shape[a]) for g in groups for a in g]  # in the order of the view
    parts: list[list[tuple[int, IntExpr]]] = []  # of every axis of ``wanted``
    for size in wanted:
        part: list[tuple[int, IntExpr]] = []
        taken: IntExpr = 1
        if size == 1 and left and left[0][1] == 1:
            part.append(left.pop(0))
        while taken != size:
            if not left:
                return None
            axis, extent = left.pop(0)
            if taken != 1 or extent != size:
                if not (isinstance(taken, int) and isinstance(extent, int)):
                    return None
                if not isinstance(size, int) or 0 in (size, extent) or size % taken:
                    return None
                need = size // taken
                if extent % need == 0 and extent > need:  # the outer part of the axis
                    left.insert(0, (axis, extent // need))
                    extent = need
                elif need % extent:
                    return None
            part.append((axis, extent))
            taken = taken * extent if taken != 1 else extent
        parts.append(part)
    if any(extent != 1 for _, extent in left) or (left and not parts):
        return None
    if left:
        parts[-1] += left
    return _joined(parts)


def _joined(parts: Sequence[Sequence[tuple[int, IntExpr]]]) -> tuple[Shape, Groups]:
    """Returns the shape of what has these axes in order, and the groups of them that ``parts`` are:
    parts of axes that follow each other in memory and in the view are one axis."""
    ordered = sorted((axis, n) for n, (axis, _) in enumerate(p for part in parts for p in part))
    ranks = iter(sorted(range(len(ordered)), key=lambda rank: ordered[rank][1]))
    sizes: dict[int, IntExpr] = {}
    groups: list[list[int]] = []
    for part in parts:
        group: list[int] = []
        for _, extent in part:
            rank = next(ranks)
            last = group[-1] if group else None
            if last is not None and rank == last + 1:
                sizes[rank] = sizes.pop(last) * extent
                group[-1] = rank
            else:
                sizes[rank] = extent
                group.append(rank)
        groups.append(group)
    number = {rank: n for n, rank in enumerate(sorted(sizes))}
    shape = tuple(sizes[rank] for rank in sorted(sizes))
    return shape, tuple(tuple(number[rank] for rank in group) for group in groups)


def whole_axes(shape: Shape, wanted: Shape) -> Groups | None:
    """Returns the axes that each one of ``wanted`` consists of, None if one is split."""
    left, groups = list(range(len(shape))), list[Axes]()
    for size in wanted:
        group: list[int] = []
        taken: IntExpr = 1
        while taken != size or (size == 1 and not group and left and shape[left[0]] == 1):
            if not left:
                return None
            taken = taken * shape[left[0]]
            group.append(left.pop(0))
        groups.append(tuple(group))
    if left and groups:
        groups[-1] += tuple(left)
        left = left if any(shape[a] != 1 for a in left) else []
    return None if left else tuple(groups)


def spread_over(shape: Shape, groups: Groups, sizes: Sequence[IntExpr]) -> Shape | None:
    """Returns, for every axis in memory, the size of an array whose axes are ``groups`` of them:
    along a group of several it has all their ``sizes``, or one element. None if it has others."""
    spread: dict[int, IntExpr] = {}
    for size, group in zip(shape, groups):
        if len(group) == 1:
            spread[group[0]] = size
        elif size == 1:
            spread |= dict.fromkeys(group, 1)
        elif size == product(sizes[a] for a in group) and group:
            spread |= {a: sizes[a] for a in group}
        else:
            return None
    return tuple(spread[a] for a in sorted(spread))
