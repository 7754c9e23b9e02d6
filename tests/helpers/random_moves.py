"""Steps of random programs that only move elements: reshaped, cut, joined, taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from random_draw import Draw, any_axis, any_value
from random_programs import Array, Step, plain

__all__ = ["gathered", "joined", "rearranged"]


def rearranged(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values)
    x = values[i]
    text, function = draw.pick(SHAPES)(draw, x) or ("", None)
    return None if function is None else Step(text, (i,), plain(function), "no")


Move = tuple[str, Callable[[Any], Any]]


def _reshape(draw: Draw, x: Array) -> Move | None:
    left, shape = x.size, []
    if left:
        for _ in range(draw.between(0, 3)):
            size = draw.pick([d for d in range(1, left + 1) if left % d == 0])
            shape.append(size)
            left //= size
        shape.insert(draw.between(0, len(shape)), -1)
    else:
        shape = [*x.shape[::-1], 1]
    target = tuple(shape)
    return f"{{}}.reshape{target}", lambda x: x.reshape(target)


def _transpose(draw: Draw, x: Array) -> Move | None:
    order = list(range(x.ndim))
    for n in range(x.ndim - 1):
        k = draw.between(n, x.ndim - 1)
        order[n], order[k] = order[k], order[n]
    axes = tuple(order)
    return (f"{{}}.transpose({axes})", lambda x: x.transpose(axes)) if axes else None


def _slice(draw: Draw, x: Array) -> Move | None:
    if not x.ndim:
        return None
    key: list[Any] = []
    for size in x.shape:
        kind = draw.pick(("all", "all", "part", "part", "index", "new"))
        if kind == "part":
            a, b = draw.between(-size - 1, size), draw.between(-size - 1, size + 1)
            key.append(
                slice(draw.pick((None, a)), draw.pick((None, b)), draw.pick((1, 2, 3, -1, -2)))
            )
        elif kind == "index" and size:
            key.append(draw.between(-size, size - 1))
        else:
            key += [None, slice(None)] if kind == "new" else [slice(None)]
    cut = tuple(key)
    return f"{{}}[{cut}]", lambda x: x[cut]


def _broadcast(draw: Draw, x: Array) -> Move | None:
    shape = tuple(draw.pick((2, 3)) if s == 1 else s for s in x.shape)
    shape = (draw.pick((1, 2, 5)), *shape)
    return f"broadcast_to({{}}, {shape})", lambda x: np.broadcast_to(x, shape)


def _pad(draw: Draw, x: Array) -> Move | None:
    if not x.ndim:
        return None
    mode = draw.pick(("constant", "constant", "edge", "reflect"))
    width = tuple((draw.between(0, 3), draw.between(0, 2)) for _ in x.shape)
    if mode == "reflect" and any(max(w) >= max(s, 1) for w, s in zip(width, x.shape)):
        mode = "constant"
    return f"pad({{}}, {width}, {mode!r})", lambda x: np.pad(x, width, mode=mode)


def _shuffled(draw: Draw, x: Array) -> Move | None:
    if not x.ndim:
        return None
    axis, k = any_axis(draw, x.ndim), draw.between(-2, 3)
    return draw.pick(
        (
            (f"flip({{}}, {axis})", lambda x: np.flip(x, axis)),
            (f"roll({{}}, {k}, {axis})", lambda x: np.roll(x, k, axis)),
            (f"repeat({{}}, 2, {axis})", lambda x: np.repeat(x, 2, axis)),
            (f"expand_dims({{}}, {axis})", lambda x: np.expand_dims(x, axis)),
            ("squeeze({})", np.squeeze),
            (f"tril({{}}, {k})", lambda x: np.tril(x, k)),
            (f"triu({{}}, {k})", lambda x: np.triu(x, k)),
            (f"swapaxes({{}}, 0, {axis})", lambda x: np.swapaxes(x, 0, axis)),
            (
                f"split({{}}, ..., {axis})[-1]",
                lambda x: np.split(x, [x.shape[axis] // 2], axis)[-1],
            ),
            (f"diff({{}}, axis={axis})", lambda x: np.diff(x, axis=axis)),
        )
    )


def _repeated(draw: Draw, x: Array) -> Move | None:
    """The whole array again, or each of its elements: indices with a remainder or a quotient."""
    if draw.between(0, 1):
        reps = tuple(draw.pick((1, 1, 2, 3, 5)) for _ in range(draw.between(1, x.ndim + 1)))
        return f"tile({{}}, {reps})", lambda x: np.tile(x, reps)
    axis, count = draw.between(0, x.ndim), draw.pick((2, 3, 4, 7))
    spread = (*x.shape[:axis], count, *x.shape[axis:])
    merged = list(spread)
    if x.ndim:
        at = max(0, axis - draw.between(0, 1))  # with the axis before it, or with the one behind
        at = min(at, len(merged) - 2)
        merged[at : at + 2] = [merged[at] * merged[at + 1]]
    shape = tuple(merged)

    def run(x: Any) -> Any:
        return np.broadcast_to(np.expand_dims(x, axis), spread).reshape(shape)

    return f"broadcast_to(expand_dims({{}}, {axis}), {spread}).reshape{shape}", run


def _diagonal(draw: Draw, x: Array) -> Move | None:
    if x.ndim < 2:
        return None
    first = draw.between(0, x.ndim - 2)
    second = draw.between(first + 1, x.ndim - 1)
    offset = draw.between(-2, 2)
    return (
        f"diagonal({{}}, {offset}, {first}, {second})",
        lambda x: np.diagonal(x, offset, first, second),
    )


def _taken(draw: Draw, x: Array) -> Move | None:
    if not x.ndim:
        return None
    axis = any_axis(draw, x.ndim)
    size = x.shape[axis]
    if not size:
        return None
    where = np.array([draw.between(-size, size - 1) for _ in range(draw.pick((1, 2, 5)))])
    return f"take({{}}, {where.tolist()}, {axis})", lambda x: np.take(x, where, axis)


SHAPES = (
    _reshape, _reshape, _transpose, _transpose, _slice, _slice, _slice, _broadcast, _pad,
    _shuffled, _shuffled, _taken, _repeated, _diagonal,
)  # fmt: skip


def joined(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values, rank=1)
    if i is None:
        return None
    axis = any_axis(draw, values[i].ndim)

    def rest(v: Array) -> list[int]:
        return [s for n, s in enumerate(v.shape) if n != axis % v.ndim]

    fits = [
        j for j, v in enumerate(values) if v.ndim == values[i].ndim and rest(v) == rest(values[i])
    ]
    chosen = tuple(draw.pick(fits) for _ in range(draw.between(1, 2)))
    if draw.between(0, 2) == 0 and all(values[j].shape == values[i].shape for j in chosen):
        return Step(
            f"stack([{{}}{', {}' * len(chosen)}], {axis})",
            (i, *chosen),
            plain(lambda *x: np.stack(x, axis)),
        )
    return Step(
        f"concatenate([{{}}{', {}' * len(chosen)}], {axis})",
        (i, *chosen),
        plain(lambda *x: np.concatenate(x, axis)),
    )


def gathered(draw: Draw, values: Sequence[Array]) -> Step | None:
    i, j = any_value(draw, values, rank=1), any_value(draw, values, "iu")
    if i is None or j is None or not values[i].size:
        return None
    axis, mode = any_axis(draw, values[i].ndim), draw.pick(("clip", "wrap"))
    if values[j].size and (values[j].max() > 1000 or values[j].min() < -1000):
        mode = "clip"  # NumPy wraps by subtracting, again and again
    return Step(
        f"take({{}}, {{}}, {axis}, mode={mode!r})",
        (i, j),
        plain(lambda x, where: np.take(x, where, axis, mode=mode)),
        "no",
    )
