"""Random modules of PyTorch: chains of functions on values that exist, tried in eager mode.

A step is a function of earlier values, with its attributes and weights bound. Eager PyTorch
computes each in float64 and float32 as the program is drawn; what it refuses, what is not finite,
and what differs between the two (a rounding decides it) is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from random_draw import RandomDraw
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["RandomModule", "draw_module", "mistakes"]

Step = tuple[str, Callable[..., Any], tuple[int, ...]]
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 16)
LARGEST = 1e4
SPREADS = 64.0
"""Errors of eager float32 that a result may be off."""


class RandomModule(nn.Module):
    """The steps in order; ``forward`` returns the values that no step reads."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.steps: list[Step] = []
        self.kept: list[int] = []
        self.layers = nn.ModuleList()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values: list[Any] = list(inputs)
        for _, function, places in self.steps:
            values.append(function(*(values[p] for p in places)))
        return tuple(values[k] for k in self.kept)

    def __str__(self) -> str:
        lines = [
            f"  v{self.count + n} = {text}({', '.join(f'v{p}' for p in places)})"
            for n, (text, _, places) in enumerate(self.steps)
        ]
        return "\n".join([*lines, f"  return {', '.join(f'v{k}' for k in self.kept)}"])


def mistakes(results: Sequence[Tensor], single: Sequence[Tensor], double: Sequence[Tensor]) -> str:
    """Returns what is wrong with results, or nothing."""
    for n, (given, low, high) in enumerate(zip(results, single, double, strict=True)):
        if (given.dtype, given.shape) != (low.dtype, low.shape):
            return (
                f"result {n} is {given.dtype}{list(given.shape)}, not {low.dtype}{list(low.shape)}"
            )
        if not given.is_floating_point():
            if not torch.equal(given, low):
                return f"result {n} has other elements"
            continue
        if not given.numel():
            continue
        off = (given.double() - high.double()).abs().max().item()
        spread = (low.double() - high.double()).abs().max().item()
        allowed = SPREADS * spread + 1e-5 * high.abs().max().item() + 1e-6
        if not off <= allowed:
            return f"result {n} is off by {off:.2e}, and may be off by {allowed:.2e}"
    return ""


class _Drawing:
    def __init__(self, draw: RandomDraw) -> None:
        self.draw = draw
        self.pick, self.between = draw.pick, draw.between
        self.generator = torch.Generator().manual_seed(draw.between(0, 1 << 30))

    def chance(self, percent: int) -> bool:
        return self.between(1, 100) <= percent

    def shape(self, low: int = 0, high: int = 4) -> list[int]:
        shape = [self.pick(SIZES) for _ in range(self.between(low, high))]
        while torch.Size(shape).numel() > 2000:
            shape[shape.index(max(shape))] = 2
        return shape

    def random(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def axis(self, x: Tensor) -> int:
        axis = self.between(0, x.dim() - 1)
        return axis - x.dim() if self.chance(30) else axis


def _words(text: str) -> list[str]:
    return text.split()


UNARY = _words(
    "abs neg relu sigmoid tanh exp sin cos erf sqrt rsqrt log log1p "
    "expm1 floor ceil trunc sign square reciprocal atan asinh sinh cosh frac"
)
ACTIVATIONS = _words(
    "gelu silu mish softplus elu selu celu leaky_relu "
    "hardswish hardsigmoid hardtanh relu6 logsigmoid softsign tanhshrink"
)


def _step(d: _Drawing, values: Sequence[Tensor]) -> Step:
    """A random step; it may not fit."""
    floats = [n for n, v in enumerate(values) if v.is_floating_point()]
    n = floats[-1] if d.chance(50) else d.pick(floats)
    x = values[n]
    rank = x.dim()
    kind = d.pick(list(_ROWS))
    text, function, *more = _ROWS[kind](d, x, rank)
    others = tuple(_partner(d, values, x) for _ in range(more[0])) if more else ()
    return f"{kind} {text}".strip(), function, (n, *others)


def _partner(d: _Drawing, values: Sequence[Tensor], x: Tensor) -> int:
    fits = [
        n
        for n, v in enumerate(values)
        if v.is_floating_point()
        and all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], v.shape[::-1]))
    ]
    return d.pick(fits)


_ROWS: dict[str, Callable[[_Drawing, Tensor, int], Any]] = {}


def _row(function: Callable[[_Drawing, Tensor, int], Any]) -> None:
    _ROWS[function.__name__.strip("_")] = function


@_row
def _unary(d: _Drawing, x: Tensor, rank: int) -> Any:
    name = d.pick(UNARY)
    return name, getattr(torch, name)


@_row
def _activation(d: _Drawing, x: Tensor, rank: int) -> Any:
    name = d.pick(ACTIVATIONS)
    return name, getattr(F, name)


@_row
def _binary(d: _Drawing, x: Tensor, rank: int) -> Any:
    name = d.pick(_words("add sub mul div maximum minimum atan2 add mul"))
    return name, getattr(torch, name), 1


@_row
def _compare_and_select(d: _Drawing, x: Tensor, rank: int) -> Any:
    name = d.pick(_words("gt lt ge le"))
    return name, lambda a, b: torch.where(getattr(torch, name)(a, b), a, b * 2), 1


@_row
def _scalar(d: _Drawing, x: Tensor, rank: int) -> Any:
    s = d.pick((0.5, 2, -1.5, 3))
    name = d.pick(_words("add mul rsub pow clamp_min remainder fmod"))
    if name == "pow":
        return f"pow {abs(int(s))}", lambda a: a ** abs(int(s))
    return f"{name} {s}", lambda a: getattr(torch, name)(a, s)


@_row
def _shape_of(d: _Drawing, x: Tensor, rank: int) -> Any:
    kind = d.pick(
        [
            "reshape",
            "permute",
            "unsqueeze",
            "squeeze",
            "flatten",
            "expand",
            "transpose",
            "flip",
            "roll",
            "repeat",
        ]
    )
    a, b = (d.axis(x), d.axis(x)) if rank else (0, 0)
    order = torch.randperm(rank, generator=d.generator).tolist()
    k = d.between(1, 3)
    return f"{kind} {a} {b} {k} {order}", {
        "reshape": lambda v: v.reshape(*v.shape[: rank // 2], -1),
        "permute": lambda v: v.permute(order),
        "unsqueeze": lambda v: v.unsqueeze(a),
        "squeeze": lambda v: v.squeeze(),
        "flatten": lambda v: v.flatten(a if a < 0 else 0),
        "expand": lambda v: v.unsqueeze(0).expand(k, *v.shape),
        "transpose": lambda v: v.transpose(a, b),
        "flip": lambda v: v.flip(a),
        "roll": lambda v: v.roll(k, a),
        "repeat": lambda v: v.repeat(k, *([1] * (rank - 1)), 2),
    }[kind]


@_row
def _part(d: _Drawing, x: Tensor, rank: int) -> Any:
    axis = d.axis(x)
    size = x.shape[axis]
    low = d.between(0, size - 1)
    step = d.pick((1, 1, 2))
    index = torch.randint(0, size, (d.between(1, 6),), generator=d.generator)
    kind = d.pick(_words("narrow select index_select chunk slice split unbind gather diff"))
    return f"{kind} axis {axis} from {low}", {
        "narrow": lambda v: v.narrow(axis, low, size - low),
        "select": lambda v: v.select(axis, low),
        "index_select": lambda v: v.index_select(axis, index),
        "chunk": lambda v: v.chunk(2, axis)[-1],
        "slice": lambda v: v[..., low::step],
        "split": lambda v: v.split(max(1, size // 2), axis)[-1],
        "unbind": lambda v: v.unbind(axis)[low],
        "gather": lambda v: v.gather(axis, torch.argsort(v, axis)),
        "diff": lambda v: v.diff(dim=axis),
    }[kind]


@_row
def _joined(d: _Drawing, x: Tensor, rank: int) -> Any:
    axis = d.axis(x)
    if d.chance(50):
        return f"cat {axis}", lambda v: torch.cat([v, v * 0.5, v], axis)
    return f"stack {axis}", lambda v: torch.stack([v, -v], axis)


@_row
def _padded(d: _Drawing, x: Tensor, rank: int) -> Any:
    if rank in (2, 3) and d.chance(50):
        mode = d.pick(("reflect", "replicate", "circular"))
        return f"{mode} 1 1", lambda v: F.pad(v, (1, 1), mode=mode)
    low, high = d.between(-1, 2), d.between(0, 2)
    return f"constant {low} {high}", lambda v: F.pad(v, (low, high), value=0.5)


@_row
def _reduced(d: _Drawing, x: Tensor, rank: int) -> Any:
    name = d.pick(_words("sum mean amax amin prod logsumexp var std norm"))
    axis, keep = d.axis(x), d.chance(50)
    return f"{name} {axis} {keep}", lambda v: getattr(torch, name)(v, dim=axis, keepdim=keep)


@_row
def _along(d: _Drawing, x: Tensor, rank: int) -> Any:
    axis = d.axis(x)
    kind = d.pick(
        [
            "softmax",
            "log_softmax",
            "cumsum",
            "normalize",
            "max",
            "sort",
            "topk",
            "argmax",
            "cumprod",
            "glu",
        ]
    )
    return f"{kind} {axis}", {
        "softmax": lambda v: v.softmax(axis),
        "log_softmax": lambda v: v.log_softmax(axis),
        "cumsum": lambda v: v.cumsum(axis),
        "cumprod": lambda v: v.cumprod(axis),
        "normalize": lambda v: F.normalize(v, dim=axis),
        "max": lambda v: v.max(axis).values,
        "sort": lambda v: v.sort(axis).values,
        "topk": lambda v: v.topk(min(2, v.shape[axis]), axis).values,
        "argmax": lambda v: v.argmax(axis),
        "glu": lambda v: F.glu(v, axis),
    }[kind]


@_row
def _product(d: _Drawing, x: Tensor, rank: int) -> Any:
    out = d.pick((1, 3, 8, 16))
    kind = d.pick(_words("linear linear matmul gram einsum bilinear"))
    w, b = d.random(out, x.shape[-1]), d.random(out)
    return f"{kind} {out}", {
        "linear": lambda v: F.linear(v, w.to(v.dtype), b.to(v.dtype)),
        "matmul": lambda v: v @ w.T.to(v.dtype),
        "gram": lambda v: v @ v.transpose(-1, -2),
        "einsum": lambda v: torch.einsum("...i,oi->o...", v, w.to(v.dtype)),
        "bilinear": lambda v: (v.unsqueeze(-2) * w.to(v.dtype)).sum(-1),
    }[kind]


@_row
def _convolved(d: _Drawing, x: Tensor, rank: int) -> Any:
    spatial = rank - 2
    if not 1 <= spatial <= 3:
        raise ValueError
    channels = x.shape[1]
    group = d.pick([g for g in (1, 1, 2, 3) if channels % g == 0])
    out, kernel = group * d.pick((1, 2, 4)), [d.pick((1, 2, 3)) for _ in range(spatial)]
    stride, padding, dilation = d.pick((1, 1, 2)), d.pick((0, 1)), d.pick((1, 1, 2))
    if d.chance(25):
        w = d.random(channels, out // group, *kernel)
        f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
        return f"transposed {stride} {padding} {group}", lambda v: f(
            v, w.to(v.dtype), None, stride, padding, groups=group
        )
    w, b = d.random(out, channels // group, *kernel), d.random(out)
    f = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    return (
        f"{kernel} stride {stride} pad {padding} dilation {dilation} groups {group}",
        lambda v: f(v, w.to(v.dtype), b.to(v.dtype), stride, padding, dilation, group),
    )


@_row
def _pooled(d: _Drawing, x: Tensor, rank: int) -> Any:
    spatial = rank - 2
    if not 1 <= spatial <= 3:
        raise ValueError
    kind = d.pick(_words("max avg adaptive_avg adaptive_max"))
    f = getattr(F, f"{kind}_pool{spatial}d")
    if kind.startswith("adaptive"):
        size = d.pick((1, 2, 3))
        return f"{kind} {size}", lambda v: f(v, size)
    kernel, stride, ceil = d.pick((2, 3)), d.pick((1, 2)), d.chance(30)
    return f"{kind} {kernel} {stride} {ceil}", lambda v: f(v, kernel, stride, ceil_mode=ceil)


@_row
def _normalised(d: _Drawing, x: Tensor, rank: int) -> Any:
    kind = d.pick(_words("layer group instance batch rms"))
    channels = x.shape[1] if rank > 1 else 1
    w, mean, variance = d.random(channels), d.random(channels), d.random(channels).abs() + 0.5
    groups = d.pick([g for g in (1, 2, 3) if channels % g == 0])
    return f"{kind} {groups}", {
        "layer": lambda v: F.layer_norm(v, v.shape[-1:]),
        "rms": lambda v: F.rms_norm(v, v.shape[-1:]),
        "group": lambda v: F.group_norm(v, groups, w.to(v.dtype)),
        "instance": lambda v: F.instance_norm(v),
        "batch": lambda v: F.batch_norm(v, mean.to(v.dtype), variance.to(v.dtype), w.to(v.dtype)),
    }[kind]


@_row
def _attended(d: _Drawing, x: Tensor, rank: int) -> Any:
    causal = d.chance(50)
    return f"causal {causal}", lambda v: F.scaled_dot_product_attention(
        v, v * 0.5, v, is_causal=causal
    )


@_row
def _resized(d: _Drawing, x: Tensor, rank: int) -> Any:
    mode = d.pick(
        {3: ("nearest", "linear"), 4: ("nearest", "bilinear", "bicubic")}.get(rank, ("nearest",))
    )
    scale = d.pick((0.5, 1.5, 2.0))
    corners = d.chance(40) if mode != "nearest" else None
    return f"{mode} {scale}", lambda v: F.interpolate(
        v, scale_factor=scale, mode=mode, align_corners=corners
    )


@_row
def _looked_up(d: _Drawing, x: Tensor, rank: int) -> Any:
    table = d.random(7, d.between(1, 5))
    return "of 7", lambda v: F.embedding((v.abs() * 3).long().clamp(0, 6), table.to(v.dtype))


def draw_module(
    seed: int, most: int = 8, foreign: Mapping[str, Callable[[Tensor], Tensor]] | None = None
) -> tuple[RandomModule, list[Tensor], list[Tensor], list[Tensor]]:
    """Returns a module, its inputs, and its results in float32 and in float64. Some of its values
    go through one of the ``foreign`` functions, by name."""
    d = _Drawing(RandomDraw(seed))
    inputs = [d.random(*d.shape(1)) for _ in range(d.between(1, 2))]
    module = RandomModule(len(inputs))
    single, double = list(inputs), [x.double() for x in inputs]
    count = d.between(1, most)
    for _ in range(6 * count):
        if len(module.steps) == count:
            break
        try:
            step = _step(d, single)
            if foreign and d.chance(40):
                step = _composed(step, *d.pick(list(foreign.items())))
            low, high = (step[1](*(v[p] for p in step[2])) for v in (single, double))
        except (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError):
            continue
        if low.numel() > 20_000 or not _is_sound(low, high):
            continue
        module.steps.append(step)
        single.append(low)
        double.append(high)
    read = {p for _, _, places in module.steps for p in places}
    module.kept = [n for n in range(len(inputs), len(single)) if n not in read] or [0]
    return module, inputs, [single[k] for k in module.kept], [double[k] for k in module.kept]


def _composed(step: Step, name: str, function: Callable[[Tensor], Tensor]) -> Step:
    text, first, places = step

    def composed(*values: Tensor) -> Tensor:
        result = first(*values)
        return function(result) if result.is_floating_point() else result

    return f"{name} of {text}", composed, places


def _is_sound(low: Tensor, high: Tensor) -> bool:
    if low.shape != high.shape or not low.numel():
        return False
    if not low.is_floating_point():
        return torch.equal(low, high)
    close = torch.allclose(low.double(), high, rtol=1e-3, atol=1e-3)
    return close and high.abs().max().item() < LARGEST
