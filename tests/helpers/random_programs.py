"""Random NumPy programs: a list of steps that runs on plain arrays and on traced ones alike.

The steps are chosen so that rounding stays rounding: no division by what may be zero, no jump that
a last bit could decide. So float32 code can be compared with the same program in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import loopwright as lw
import numpy as np

SIZES = (1, 2, 3, 5, 8, 13, 16, 17, 33)
LARGEST = 20_000  # elements of any intermediate

Array = np.ndarray[Any, Any]


@dataclass
class Program:
    """``steps`` take the arrays so far and give one more; the last of all is the result."""

    inputs: list[Array]
    steps: list[tuple[str, Callable[[Sequence[Any]], Any]]] = field(default_factory=list)

    def __call__(self, *inputs: Any) -> Any:
        values = list(inputs)
        for _, step in self.steps:
            values.append(step(values))
        return values[-1]

    def scale(self) -> float:
        """The greatest magnitude met on the way, in float64."""
        values: list[Any] = [a.astype(np.float64) for a in self.inputs]
        for _, step in self.steps:
            values.append(step(values))
        return max((float(np.abs(v).max()) for v in values if np.size(v)), default=0.0)

    def __repr__(self) -> str:
        shapes = ", ".join(f"%{i}{list(a.shape)}" for i, a in enumerate(self.inputs))
        lines = [f"%{i} = {text}" for i, (text, _) in enumerate(self.steps, len(self.inputs))]
        return "\n".join([shapes, *lines])


UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "exp(-|x|)": lambda x: np.exp(-np.abs(x)),
    "sqrt(x*x+1)": lambda x: np.sqrt(x * x + 1),
    "log1p(|x|)": lambda x: np.log1p(np.abs(x)),
    "sin": np.sin,
    "-x": np.negative,
    "relu": lw.nn.relu,
    "gelu": lw.nn.gelu,
    "sigmoid": lw.nn.sigmoid,
    "erf": lw.nn.erf,
    "clip": lambda x: np.clip(x, -1, 2),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "tanh*": lambda x, y: np.tanh(x) * y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "/(1+|y|)": lambda x, y: x / (1 + np.abs(y)),
}
REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "var": np.var}
EXTREMES: dict[str, Callable[..., Any]] = {"max": np.max, "min": np.min}


@st.composite
def programs(draw: st.DrawFn, sizes: Sequence[int] = SIZES, most: int = 12) -> Program:
    """Programs of 1 to ``most`` steps on 1 to 3 float32 inputs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = st.lists(st.sampled_from(sizes), max_size=3)
    inputs = [
        rng.standard_normal(draw(shape)).astype(np.float32) for _ in range(draw(st.integers(1, 3)))
    ]
    program = Program(inputs)
    values: list[Array] = list(inputs)
    wanted = draw(st.integers(1, most))
    while len(program.steps) < wanted:
        made = _step(draw, values, rng)
        if made is None:
            continue
        value = made[1](values)
        if np.size(value) > LARGEST or not np.all(np.abs(value) < 1e4):
            made = ("tanh of the first", lambda v: np.tanh(v[0]))
            value = made[1](values)
        program.steps.append(made)
        values.append(np.asarray(value))
    return program


def _step(
    draw: st.DrawFn, values: Sequence[Array], rng: np.random.Generator
) -> tuple[str, Callable[[Sequence[Any]], Any]] | None:
    # Mostly the newest value goes on, so that programs are deep as well as wide.
    i = draw(st.one_of(st.just(len(values) - 1), st.integers(0, len(values) - 1)))
    kind = draw(st.sampled_from(("unary", "binary", "reduce", "shape", "network")))
    if kind == "unary":
        name = draw(st.sampled_from(sorted(UNARY)))
        return f"{name} %{i}", lambda v: UNARY[name](v[i])
    if kind == "binary":
        return _binary(draw, values, i)
    if kind == "reduce":
        return _reduction(draw, values[i], i)
    if kind == "shape":
        return _shape(draw, values[i], i)
    return _network(draw, values[i], i, rng)


def _binary(draw: st.DrawFn, values: Sequence[Array], i: int) -> Any:
    name = draw(st.sampled_from(sorted(BINARY)))
    fits = [j for j, v in enumerate(values) if _broadcast(v.shape, values[i].shape)]
    j = draw(st.sampled_from(fits))
    if draw(st.booleans()):
        return f"%{i} {name} %{j}", lambda v: BINARY[name](v[i], v[j])
    return f"%{j} {name} %{i}", lambda v: BINARY[name](v[j], v[i])


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1]))


def _reduction(draw: st.DrawFn, x: Array, i: int) -> Any:
    table = REDUCTIONS if not x.size else {**REDUCTIONS, **EXTREMES}
    if not x.size:
        table = {"sum": np.sum}  # the mean of nothing is a warning in NumPy
    name = draw(st.sampled_from(sorted(table)))
    axis = draw(st.sampled_from((None, *range(x.ndim)))) if x.ndim else None
    keep = draw(st.booleans())
    text = f"{name} %{i} axis={axis} keepdims={keep}"
    return text, lambda v: table[name](v[i], axis=axis, keepdims=keep)


def _shape(draw: st.DrawFn, x: Array, i: int) -> Any:
    kind = draw(
        st.sampled_from(("flatten", "expand", "transpose", "slice", "flip", "pad", "twice"))
    )
    if kind == "flatten":
        return f"reshape %{i} to 1-d", lambda v: v[i].reshape(-1)
    if kind == "expand":
        at = draw(st.integers(0, x.ndim)) if x.ndim < 3 else None
        return at if at is None else (f"expand %{i} {at}", lambda v: np.expand_dims(v[i], at))
    if not x.ndim:
        return None
    axis = draw(st.integers(0, x.ndim - 1))
    if kind == "transpose":
        order = tuple(draw(st.permutations(range(x.ndim))))
        return f"transpose %{i} {order}", lambda v: np.transpose(v[i], order)
    if kind == "flip":
        return f"flip %{i} {axis}", lambda v: np.flip(v[i], axis)
    if kind == "twice":
        return f"%{i} twice along {axis}", lambda v: np.concatenate([v[i], v[i]], axis)
    if kind == "pad":
        width = [(0, 0)] * x.ndim
        width[axis] = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
        return f"pad %{i} {width}", lambda v: np.pad(v[i], width)
    size = x.shape[axis]
    start, step = draw(st.integers(0, max(0, size - 1))), draw(st.sampled_from((1, 2, 3, -1)))
    cut = (slice(None),) * axis + (slice(start, None, step),)
    return f"%{i}[{start}::{step}] on axis {axis}", lambda v: v[i][cut]


def _network(draw: st.DrawFn, x: Array, i: int, rng: np.random.Generator) -> Any:
    if not x.ndim or not x.size:
        return None
    if draw(st.booleans()):
        return f"softmax %{i}", lambda v: lw.nn.softmax(v[i])
    columns = draw(st.sampled_from((1, 3, 8, 17)))
    weight = rng.standard_normal((x.shape[-1], columns), np.float32) / np.float32(x.shape[-1])
    # In float64 the weight is the same number, so only the arithmetic differs.
    return f"%{i} @ [{x.shape[-1]}, {columns}]", lambda v: v[i] @ weight.astype(_dtype(v[i]))


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, np.ndarray | np.generic) else np.float32
