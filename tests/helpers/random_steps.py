"""The steps random programs are made of, drawn to fit the values there are.

Every maker takes a ``Draw`` and the values so far (as NumPy has them) and gives a Step, or None
where it has nothing to offer. Proposals may be wrong: ``random_programs.grow`` drops what NumPy
refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from random_draw import DTYPES, SIZES, Draw, any_axis, any_value, random_array, random_input
from random_elementwise import binary, cast, constant, unary, where
from random_moves import gathered, joined, rearranged
from random_programs import Array, Mode, Program, Step, grow, plain

__all__ = ["draw_index_maps", "draw_program"]

# Reductions.


def _reduction(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values)
    x = values[i]
    name = draw.pick(
        ("sum", "sum", "mean", "max", "min", "var", "std", "prod", "any", "all", "argmax", "argmin")
    )
    single = name.startswith("arg")
    axis: Any = None
    if x.ndim and draw.between(0, 3):
        axis = any_axis(draw, x.ndim)
        if x.ndim > 1 and not single and draw.between(0, 3) == 0:
            axis = (axis % x.ndim, (axis + 1) % x.ndim)
    keep = bool(draw.between(0, 1))
    function = getattr(np, name)
    exact = name in ("max", "min", "any", "all", "argmax", "argmin")
    return Step(
        f"{name}({{}}, axis={axis}, keepdims={keep})",
        (i,),
        plain(lambda x: function(x, axis=axis, keepdims=keep)),
        "no" if exact else "inside",
    )


# Contractions and networks.


def _matmul(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values, "fiu", rank=1)
    if i is None:
        return None
    x = values[i]
    fits = [
        j
        for j, v in enumerate(values)
        if v.ndim and v.dtype.kind in "fiu" and v.shape[-2:][0] == x.shape[-1]
    ]
    if fits and draw.between(0, 1):
        return Step("{} @ {}", (i, draw.pick(fits)), plain(lambda x, y: x @ y), "inside")
    if draw.between(0, 3) == 0 and x.ndim >= 2:
        return Step("{0} @ {0}.mT", (i,), plain(lambda x: x @ np.swapaxes(x, -1, -2)), "inside")
    columns = draw.pick((None, 1, 3, 8, 17, 33))
    shape = (x.shape[-1],) if columns is None else (x.shape[-1], columns)
    dtype = np.dtype("float32") if x.dtype.kind == "f" else x.dtype
    w = random_array(np.random.default_rng(draw.between(0, 99)), shape, dtype)
    return Step(f"{{}} @ array{list(shape)}", (i,), lambda m, x: x @ m.constant(w), "inside")


def _einsum(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values, "f", rank=2)
    if i is None:
        return None
    letters = "abcde"[: values[i].ndim]
    equation = draw.pick(
        (
            f"{letters}->{letters[::-1]}",
            f"{letters}->{letters[1:]}",
            f"{letters},{letters}->{letters[:-1]}",
            f"{letters},{letters}->{letters[0]}",
            f"{letters},{letters[:-1]}z->{letters[:-2]}{letters[-1]}z",
            f"{letters},{letters[:-1]}->{letters}",
        )
    )
    if "," not in equation:
        return Step(
            f"einsum({equation!r}, {{}})", (i,), plain(lambda x: np.einsum(equation, x)), "inside"
        )
    second = draw.pick(range(len(values)))
    return Step(
        f"einsum({equation!r}, {{}}, {{}})",
        (i, second),
        plain(lambda x, y: np.einsum(equation, x, y)),
        "inside",
    )


def _rows(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values, "f", rank=1)
    if i is None or not values[i].size:
        return None
    name = draw.pick(("softmax", "softmax", "log_softmax", "layer_norm", "rms_norm"))
    axis = -1 if draw.between(0, 1) else any_axis(draw, values[i].ndim)
    return Step(
        f"nn.{name}({{}}, axis={axis})",
        (i,),
        lambda m, x: getattr(m.nn, name)(x, axis=axis),
        "inside",
    )


def _images(draw: Draw, values: Sequence[Array]) -> Step | None:
    """Convolution and pooling; a value becomes an image first where it is none."""
    i = any_value(draw, values, "f", rank=2)
    if i is None or not values[i].size:
        return None
    shape = values[i].shape
    shape = (*(1,) * (4 - len(shape)), *shape) if len(shape) <= 4 else None
    if shape is None:
        return None
    strides = draw.pick((1, 1, 2, 3))
    kind = draw.pick(("conv", "conv", "max", "avg"))
    if kind != "conv":
        size = draw.between(1, 3)
        name = f"{kind}_pool2d"
        return Step(
            f"nn.{name}({{}}.reshape{shape}, {size}, strides={strides})",
            (i,),
            lambda m, x: getattr(m.nn, name)(x.reshape(shape), size, strides=strides),
            "inside" if kind == "avg" else "no",
        )
    groups = draw.pick([g for g in (1, 1, 2, 3, shape[1]) if shape[1] % g == 0])
    weight = (
        groups * draw.pick((1, 2, 5)), shape[1] // groups, draw.between(1, 3), draw.between(1, 3)
    )  # fmt: skip
    w = random_array(np.random.default_rng(draw.between(0, 99)), weight, np.dtype("float32"))
    options = {
        "strides": strides,
        "padding": draw.between(0, 2),
        "dilation": draw.pick((1, 1, 2)),
        "groups": groups,
    }

    def run(m: Mode, x: Any) -> Any:
        return m.nn.conv2d(x.reshape(shape), m.constant(w), **options)

    shown = ", ".join(f"{name}={value}" for name, value in options.items())
    text = f"nn.conv2d({{}}.reshape{shape}, array{list(weight)}, {shown})"
    return Step(text, (i,), run, "inside")


def _one_hot(draw: Draw, values: Sequence[Array]) -> Step | None:
    i, depth = any_value(draw, values, "iu"), draw.between(1, 9)
    if i is None:
        return None
    return Step(
        f"nn.one_hot({{}}, {depth})",
        (i,),
        lambda m, x: m.nn.one_hot(x, depth).astype(m.float),
        "no",
    )


MAKERS: tuple[Callable[[Draw, Sequence[Array]], Step | None], ...] = (
    *(unary,) * 6,
    *(binary,) * 6,
    *(rearranged,) * 6,
    *(_reduction,) * 4,
    *(_matmul,) * 2,
    *(_rows,) * 2,
    *(constant,) * 2,
    cast,
    where,
    joined,
    gathered,
    _einsum,
    _images,
    _one_hot,
)


CONSUMERS = (
    *(_reduction,) * 6, *(_matmul,) * 4, unary, binary, cast, _einsum,
    *(_rows,) * 2, *(_images,) * 2,
)  # fmt: skip


def draw_program(draw: Draw, most: int = 12) -> Program:
    """A program of 1 to ``most`` steps on 1 to 3 inputs, with 1 to 3 results."""
    seed = draw.between(0, 2**31)
    rng = np.random.default_rng(seed)
    sizes = SIZES
    if draw.between(0, 4) == 0:
        sizes = (0, 1, *SIZES)
    inputs = [random_input(draw, rng, sizes) for _ in range(draw.between(1, 3))]

    def propose(values: Sequence[Array]) -> Step | None:
        return draw.pick(MAKERS)(draw, values)

    def outputs(count: int, values: int) -> list[int]:
        more = draw.pick((0, 0, 1, 2)) if values > count + 1 else 0
        return sorted({draw.between(count, values - 1) for _ in range(more)})

    return grow(inputs, draw.between(1, most), propose, outputs, seed)


def draw_index_maps(draw: Draw) -> Program:
    """An array rearranged 1 to 3 times, each time what came last, and the result consumed."""
    seed = draw.between(0, 2**31)
    rng = np.random.default_rng(seed)
    shape = [
        draw.pick((3, 5, 9, 16, 17, 24, 33, 48, 70)) for _ in range(draw.pick((1, 2, 2, 2, 3)))
    ]
    dtype = np.dtype(draw.pick(DTYPES))
    inputs = [random_array(rng, tuple(shape), dtype)]
    moves, consumers = draw.between(1, 3), draw.pick((1, 1, 1, 2))

    def propose(values: Sequence[Array]) -> Step | None:
        makers = (rearranged, rearranged, rearranged, joined)
        maker = draw.pick(makers if len(values) <= moves else CONSUMERS)
        step = maker(draw, values[-1:])
        last = len(values) - 1
        return None if step is None else replace(step, operands=(last,) * len(step.operands))

    return grow(inputs, moves + consumers, propose, lambda inputs, values: (), seed)
