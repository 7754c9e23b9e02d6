"""Rows of random ONNX models: elements, shapes and products."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from random_onnx import DTYPES, Drawing, Tensor, Unfit, row


def _number(d: Drawing, low: float = 0.05, high: float = 2.0) -> float:
    return round(float(d.rng.uniform(low, high)), 3)


# -- element by element -----------------------------------------------------------------------

UNARY = (
    "Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh "
    "Atanh Floor Ceil Round Sign Softplus Softsign HardSwish Mish Reciprocal IsNaN IsInf Identity"
)


@row(*UNARY.split())
def _unary(d: Drawing, name: str) -> None:
    kinds = "fi" if name in ("Abs", "Neg", "Sign") else "fiub" if name == "Identity" else "f"
    # The evaluator's error function and constants are float32.
    d.emit(name, [d.some(kinds, fits=_is_single if name in ("Erf", "HardSwish") else None)])


def _is_single(tensor: Tensor) -> bool:
    return tensor.dtype == np.float32


@row("Not")
def _not(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("b")])


@row("BitwiseNot")
def _bitwise_not(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("iu")])


@row("Elu", "LeakyRelu", "ThresholdedRelu", "Celu")
def _alpha(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("f", fits=_is_single)], alpha=d.pick((None, _number(d))))


@row("Selu")
def _selu(d: Drawing, name: str) -> None:
    x = d.some("f", fits=_is_single)
    d.emit(name, [x], alpha=d.pick((None, 1.5)), gamma=d.pick((None, 0.7)))


@row("HardSigmoid")
def _hard_sigmoid(d: Drawing, name: str) -> None:
    x = d.some("f", fits=_is_single)  # attributes are float32
    d.emit(name, [x], alpha=d.pick((None, 0.3)), beta=d.pick((None, 0.1)))


@row("Shrink")
def _shrink(d: Drawing, name: str) -> None:
    x = d.some("f", fits=_is_single)
    d.emit(name, [x], lambd=_number(d), bias=d.pick((None, 0.25)))


@row("Gelu")
def _gelu(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("f", fits=_is_single)], approximate=d.pick((None, "none", "tanh")))


@row("Swish")
def _swish(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("f", fits=_is_single)], alpha=d.pick((None, 0.5, 1.702)))


@row("Dropout")
def _dropout(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("f")], 2 if d.opset >= 12 and d.chance(30) else 1)


@row("Cast")
def _cast(d: Drawing, name: str) -> None:
    x = d.some("fiub")
    to = np.dtype(d.pick(DTYPES))
    if x.dtype.kind == "f" and to.kind == "u" and x.value.size and np.min(x.value) < 0:
        raise Unfit  # not defined
    d.emit(name, [x], to=helper.np_dtype_to_tensor_dtype(to))


@row("CastLike")
def _cast_like(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("fib"), d.some("fi")])


@row("Clip")
def _clip(d: Drawing, name: str) -> None:
    x = d.some("f" if d.opset < 12 else "fi")
    if d.opset < 11:
        d.emit(name, [x], min=d.pick((None, -0.5)), max=d.pick((None, 0.75)))
        return
    low = d.pick((None, d.known(-1 if x.dtype.kind == "i" else -0.5, x.dtype)))
    high = d.pick((None, d.known(3 if x.dtype.kind == "i" else 0.75, x.dtype)))
    d.emit(name, [x, low, high] if high is not None else [x, low] if low is not None else [x])


@row("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def _binary(d: Drawing, name: str) -> None:
    kinds = {"Pow": "f", "Equal": "fiub" if d.opset >= 11 else "ib", "Div": "ffi"}.get(name, "fiu")
    x = d.some(kinds)
    y = d.partner(x)
    if name == "Div" and x.dtype.kind != "f":
        y = d.known(d.rng.integers(1, 9, y.shape) * d.rng.choice([-1, 1], y.shape), x.dtype)
    d.emit(name, [x, y] if d.chance(70) else [y, x])


@row("And", "Or", "Xor")
def _logic(d: Drawing, name: str) -> None:
    x = d.some("b")
    d.emit(name, [x, d.partner(x)])


@row("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def _bitwise(d: Drawing, name: str) -> None:
    x = d.some("iu")
    d.emit(name, [x, d.partner(x)])


@row("BitShift")
def _bit_shift(d: Drawing, name: str) -> None:
    x = d.some("u")
    y = d.known(d.rng.integers(0, 8, x.shape), x.dtype)
    d.emit(name, [x, y], direction=d.pick(("LEFT", "RIGHT")))


@row("Mod")
def _mod(d: Drawing, name: str) -> None:
    x = d.some("fi")
    sign = d.rng.choice([-1, 1], x.shape)
    y = d.known(d.rng.integers(1, 6, x.shape) * sign, x.dtype)
    d.emit(name, [x, y], fmod=1 if x.dtype.kind == "f" else d.pick((None, 0, 1)))


@row("Max", "Min", "Sum", "Mean")
def _variadic(d: Drawing, name: str) -> None:
    x = d.some("f" if d.opset < 12 or name in ("Sum", "Mean") else "fiu")
    more = [d.partner(x) for _ in range(d.between(0, 3))]
    d.emit(name, [x, *more])


@row("PRelu")
def _prelu(d: Drawing, name: str) -> None:
    x = d.some("f", 1)
    d.emit(name, [x, d.fresh([1] * (x.rank - 1) + [x.shape[-1]], x.dtype)])


@row("Where")
def _where(d: Drawing, name: str) -> None:
    x = d.some("fib")
    condition = d.fresh([1 if d.chance(25) else s for s in x.shape], "bool")
    d.emit(name, [condition, x, d.partner(x)])


# -- shapes -----------------------------------------------------------------------------------


@row("Reshape")
def _reshape(d: Drawing, name: str) -> None:
    x = d.some()
    sizes = [s for s in x.shape if s > 1]
    shape: list[int] = []
    left = x.value.size
    for _ in range(d.between(0, 3)):
        size = d.pick([*sizes, 1, 2]) if sizes else 1
        if left and left % size == 0:
            shape.append(size)
            left //= size
    shape.insert(d.between(0, len(shape)), -1 if d.chance(50) and left else left)
    d.emit(name, [x, d.known(shape, np.int64)])


@row("Transpose")
def _transpose(d: Drawing, name: str) -> None:
    x = d.some()
    perm = d.rng.permutation(x.rank).tolist()
    d.emit(name, [x], perm=None if d.chance(20) or not perm else perm)


@row("Flatten")
def _flatten(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1)
    axis = d.between(0 if d.opset < 11 else -x.rank, x.rank)
    d.emit(name, [x], axis=d.pick((None, axis)))


@row("Squeeze")
def _squeeze(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1, fits=lambda t: 1 in t.shape)
    axes = [a for a, s in enumerate(x.shape) if s == 1]
    axes = axes[: d.between(1, len(axes))]
    _with_axes(d, name, x, None if d.chance(25) else axes, 13)


@row("Unsqueeze")
def _unsqueeze(d: Drawing, name: str) -> None:
    x = d.some("fiub", 0, 4)
    count = d.between(1, 2)
    axes = d.rng.permutation(x.rank + count)[:count].tolist()
    if d.opset >= 11:
        axes = [a - x.rank - count if d.chance(25) else a for a in axes]
    _with_axes(d, name, x, axes, 13)


def _with_axes(
    d: Drawing, name: str, x: Tensor, axes: list[int] | None, since: int, **more: Any
) -> None:
    """Emits a node whose axes are an attribute before opset ``since``, and an input after."""
    if d.opset < since:
        d.emit(name, [x], axes=axes, **more)
    else:
        d.emit(name, [x] if axes is None else [x, d.known(axes, np.int64)], **more)


@row("Expand")
def _expand(d: Drawing, name: str) -> None:
    x = d.some("fiub", 0, 4)
    shape = [d.pick((1, 2, 3)) if s == 1 else d.pick((1, s)) for s in x.shape]
    shape = [d.pick((1, 2)) for _ in range(d.between(0, 1))] + shape
    d.emit(name, [x, d.known(np.array(shape, np.int64))])


@row("Concat")
def _concat(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1)
    axis = d.axis(x.rank) if d.opset >= 11 else d.between(0, x.rank - 1)
    parts = [x]
    for _ in range(d.between(0, 2)):
        shape = list(x.shape)
        shape[axis] = d.pick((1, 2, 3, 5))
        parts.append(x if d.chance(25) else d.fresh(shape, x.dtype))
    d.emit(name, parts, axis=axis)


@row("Split")
def _split(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1, fits=lambda t: max(t.shape) >= 2)
    axis = d.pick([a for a, s in enumerate(x.shape) if s >= 2])
    size = x.shape[axis]
    if d.chance(50) and size % 2 == 0:
        d.emit(name, [x], 2, axis=axis, num_outputs=2 if d.opset >= 18 else None)
        return
    first = d.between(1, size - 1)
    parts = [first, size - first]
    if d.opset < 13:
        d.emit(name, [x], 2, axis=axis, split=parts)
    else:
        d.emit(name, [x, d.known(parts, np.int64)], 2, axis=axis)


@row("Slice")
def _slice(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1)
    axes = sorted({a % x.rank for a in d.axes(x.rank)})
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = d.pick((1, 1, 1, 2, -1, -2)) if d.opset >= 10 else 1
        low, high = sorted((d.between(-size - 1, size + 1), d.between(-size - 1, size + 1)))
        low, high = (high, low) if step < 0 else (low, high)
        starts.append(low)
        ends.append(d.pick((high, 2**31 - 1 if step > 0 else -(2**31))))
        steps.append(step)
    if d.opset < 10:
        d.emit(name, [x], axes=axes, starts=starts, ends=ends)
        return
    dtype = d.pick((np.int64, np.int32))
    inputs = [x, d.known(starts, dtype), d.known(ends, dtype), d.known(axes, dtype)]
    d.emit(name, inputs if all(s == 1 for s in steps) else [*inputs, d.known(steps, dtype)])


@row("Pad")
def _pad(d: Drawing, name: str) -> None:
    x = d.some("f" if d.opset < 13 else "fi", 1, 4)
    mode = d.pick(
        (None, "constant", "constant", "reflect", "edge") + (("wrap",) if d.opset >= 19 else ())
    )
    low = -1 if mode in (None, "constant") else 0
    pads = [d.between(low, 2) for _ in range(2 * x.rank)]
    if mode in ("reflect", "wrap", "edge"):
        pads = [
            min(p, x.shape[n % x.rank] - 1) if x.shape[n % x.rank] else 0
            for n, p in enumerate(pads)
        ]
    if any(x.shape[a] + pads[a] + pads[a + x.rank] < 1 for a in range(x.rank)):
        raise Unfit
    if d.opset < 11:
        d.emit(name, [x], pads=pads, mode=mode, value=d.pick((None, 0.5)))
        return
    inputs = [x, d.known(pads, np.int64)]
    if mode in (None, "constant") and d.chance(50):
        inputs.append(d.known(2, x.dtype))
    d.emit(name, inputs, mode=mode)


@row("Tile")
def _tile(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1)
    d.emit(name, [x, d.known([d.pick((1, 1, 2, 3)) for _ in x.shape], np.int64)])


@row("Gather", "GatherElements")
def _gather(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1, fits=lambda t: 0 not in t.shape)
    axis = d.axis(x.rank) if d.opset >= 11 else d.between(0, x.rank - 1)
    size = x.shape[axis]
    shape = d.shape(0, 2)
    if name == "GatherElements":
        shape = [s if a == axis % x.rank else d.between(1, s) for a, s in enumerate(x.shape)]
    low = -size if d.opset >= 11 else 0
    index = d.rng.integers(low, size, shape)
    d.emit(name, [x, _index(d, index)], axis=axis)


def _index(d: Drawing, values: Any) -> Tensor:
    """Indices as an initializer or an input."""
    array = np.asarray(values, d.pick((np.int64, np.int64, np.int32)))
    if d.chance(60):
        return d.known(array)
    x = d.fresh(array.shape, array.dtype)
    x.value[...] = array
    return x


@row("GatherND")
def _gather_nd(d: Drawing, name: str) -> None:
    x = d.some("fiub", 1, fits=lambda t: 0 not in t.shape)
    count = d.between(1, x.rank)
    index = [d.rng.integers(-s, s, (d.pick((1, 2, 4)),)) for s in [*x.shape][:count]]
    length = min(len(i) for i in index)
    d.emit(name, [x, d.known(np.stack([i[:length] for i in index], -1), np.int64)])


@row("ScatterElements")
def _scatter_elements(d: Drawing, name: str) -> None:
    x = d.some("fi", 1, fits=lambda t: 0 not in t.shape)
    axis = d.axis(x.rank)
    count = d.between(1, x.shape[axis])
    shape = [count if a == axis % x.rank else s for a, s in enumerate(x.shape)]
    order = np.argsort(d.rng.random(x.shape), axis=axis)  # no index twice in a line
    index = np.take(order, np.arange(count), axis=axis)
    reductions = (None, None, "add", "mul") if d.opset >= 16 else (None,)
    reductions += ("max", "min") if d.opset >= 18 else ()
    updates = d.fresh(shape, x.dtype)
    d.emit(name, [x, d.known(index, np.int64), updates], axis=axis, reduction=d.pick(reductions))


@row("ScatterND")
def _scatter_nd(d: Drawing, name: str) -> None:
    x = d.some("fi", 1, fits=lambda t: 0 not in t.shape)
    count = d.between(1, x.shape[0])
    index = d.rng.permutation(x.shape[0])[:count, None]
    reductions = (None, None, "add", "mul") if d.opset >= 16 else (None,)
    reductions += ("max", "min") if d.opset >= 18 else ()
    updates = d.fresh([count, *x.shape[1:]], x.dtype)
    d.emit(name, [x, d.known(index, np.int64), updates], reduction=d.pick(reductions))


@row("DepthToSpace", "SpaceToDepth")
def _depth(d: Drawing, name: str) -> None:
    size = d.pick((2, 2, 3))
    channels, height, width = d.between(1, 3), d.between(1, 4), d.between(1, 4)
    if name == "DepthToSpace":
        x = d.fresh([d.between(1, 2), channels * size * size, height, width], "float32")
        mode = d.pick((None, "DCR", "CRD")) if d.opset >= 11 else None
        d.emit(name, [x], blocksize=size, mode=mode)
    else:
        x = d.fresh([d.between(1, 2), channels, height * size, width * size], "float32")
        d.emit(name, [x], blocksize=size)


@row("Shape")
def _shape(d: Drawing, name: str) -> None:
    x = d.some()
    if d.opset >= 15 and d.chance(50):
        d.emit(name, [x], start=d.pick((None, 1, -1)), end=d.pick((None, 2, -1)))
    else:
        d.emit(name, [x])


@row("Size")
def _size(d: Drawing, name: str) -> None:
    d.emit(name, [d.some()])


@row("ConstantOfShape")
def _constant_of_shape(d: Drawing, name: str) -> None:
    value = helper.make_tensor("v", 1, [1], [2.5])
    d.emit(name, [d.known(d.shape(0, 3), np.int64)], value=d.pick((None, value)))


@row("Range")
def _range(d: Drawing, name: str) -> None:
    dtype = d.pick((np.int64, np.int32, np.float32))
    start, step = d.between(-5, 5), d.pick((1, 2, -1, 3))
    limit = start + step * d.between(0, 9)
    d.emit(name, [d.known(v, dtype) for v in (start, limit, step)])


@row("OneHot")
def _one_hot(d: Drawing, name: str) -> None:
    depth = d.between(2, 6)
    index = _index(d, d.rng.integers(-depth if d.opset >= 11 else 0, depth, d.shape(1, 2)))
    values = d.known([0, 1] if d.chance(50) else [-1, 2], d.pick((np.float32, np.int64)))
    d.emit(name, [index, d.known(depth, np.int64), values], axis=d.pick((None, -1, 0, 1)))


@row("EyeLike")
def _eye_like(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("fi", 2, 2)], k=d.pick((None, 1, -1)))


@row("Trilu")
def _trilu(d: Drawing, name: str) -> None:
    x = d.some("fi", 2)
    k = d.pick((None, d.known(d.between(-2, 2), np.int64)))
    d.emit(name, [x] if k is None else [x, k], upper=d.pick((None, 0, 1)))


@row("ReverseSequence")
def _reverse_sequence(d: Drawing, name: str) -> None:
    x = d.some("fi", 2, fits=lambda t: 0 not in t.shape)
    time = d.between(0, 1)
    lengths = d.rng.integers(1, x.shape[time] + 1, x.shape[1 - time])
    d.emit(name, [x, d.known(lengths, np.int64)], time_axis=time, batch_axis=1 - time)


@row("CumSum")
def _cumsum(d: Drawing, name: str) -> None:
    x = d.some("fi", 1, fits=lambda t: t.dtype.itemsize >= 4)
    axis = d.known(d.axis(x.rank), d.pick((np.int64, np.int32)))
    d.emit(name, [x, axis], exclusive=d.pick((None, 0, 1)), reverse=d.pick((None, 0, 1)))


@row("TopK")
def _topk(d: Drawing, name: str) -> None:
    x = d.some("f" if d.opset < 11 else "fi", 1, fits=lambda t: 0 not in t.shape)
    axis = d.axis(x.rank) if d.opset >= 11 else d.between(0, x.rank - 1)
    k = d.between(1, x.shape[axis])
    if len(np.unique(x.value)) < x.value.size:
        raise Unfit  # the order of equal elements: ours is the standard's, the evaluator's is not
    if d.opset < 10:
        d.emit(name, [x], 2, axis=axis, k=k)
        return
    largest = d.pick((None, 0, 1)) if d.opset >= 11 else None
    d.emit(name, [x, d.known([k], np.int64)], 2, axis=axis, largest=largest)


@row("ArgMax", "ArgMin")
def _arg(d: Drawing, name: str) -> None:
    x = d.some("f" if d.opset < 12 else "fi", 1, fits=lambda t: 0 not in t.shape)
    axis = d.axis(x.rank) if d.opset >= 11 else d.between(0, x.rank - 1)
    last = d.pick((None, 0, 1)) if d.opset >= 12 else None
    d.emit(name, [x], axis=axis, keepdims=d.pick((None, 0, 1)), select_last_index=last)


REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"


@row(*(f"Reduce{name}" for name in REDUCTIONS.split()))
def _reduce(d: Drawing, name: str) -> None:
    x = d.some("f" if d.chance(80) else "i", fits=lambda t: t.dtype.itemsize >= 4)
    if 0 in x.shape and name in ("ReduceMax", "ReduceMin", "ReduceMean"):
        raise Unfit
    axes = None if d.chance(25) or not x.rank else d.axes(x.rank)
    if axes is not None and d.opset < 11:
        axes = sorted({a % x.rank for a in axes})
    since = 13 if name == "ReduceSum" else 18
    noop = d.pick((None, 0, 1)) if d.opset >= since and axes is None else None
    keep = d.pick((None, 0, 1))
    _with_axes(d, name, x, axes, since, keepdims=keep, noop_with_empty_axes=noop)


# -- products ---------------------------------------------------------------------------------


@row("MatMul")
def _matmul(d: Drawing, name: str) -> None:
    x = d.some("f", 1, 4)
    other = [x.shape[-1], d.pick((1, 2, 5, 8, 17))]
    if d.chance(15):
        other = other[:1]
    elif d.chance(30):
        other = [*(d.pick((1, s)) for s in x.shape[:-2]), *other]
    d.emit(name, [x, d.fresh(other, x.dtype)])


@row("Gemm")
def _gemm(d: Drawing, name: str) -> None:
    x = d.some("f", 2, 2, fits=lambda t: 0 not in t.shape)  # ONNX Runtime forgets beta there
    by_left, by_right = d.between(0, 1), d.between(0, 1)
    inner, rows = (x.shape[0], x.shape[1]) if by_left else (x.shape[1], x.shape[0])
    columns = d.pick((1, 3, 8, 16))
    y = d.fresh([columns, inner] if by_right else [inner, columns], x.dtype)
    bias = d.pick((None, [columns], [rows, columns], [rows, 1], [1, columns], []))
    if bias is None and d.opset < 11:
        bias = [columns]
    inputs = [x, y] if bias is None else [x, y, d.fresh(bias, x.dtype)]
    scales = {"alpha": d.pick((None, 0.5)), "beta": d.pick((None, 2.0, 0.0))}
    d.emit(name, inputs, transA=by_left, transB=by_right, **scales)


@row("Einsum")
def _einsum(d: Drawing, name: str) -> None:
    sizes = {c: d.pick((1, 2, 3, 5)) for c in "abcd"}
    equation = d.pick(
        (
            "ab,bc->ac",
            "ab,cb->ca",
            "abc,cd->abd",
            "ab->ba",
            "ab->a",
            "abc,abd->acd",
            "ab,ab->",
            "a,b->ab",
        )
    )
    terms = equation.split("->")[0].split(",")
    d.emit(name, [d.fresh([sizes[c] for c in t], "float32") for t in terms], equation=equation)
