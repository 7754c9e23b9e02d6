"""``lw.nn``: what neural networks need and NumPy lacks.

The functions take NumPy arrays or traced ones. On plain arrays they compute at once, with the
operator's NumPy reference; in a compiled function they become one operator each.

>>> import numpy as np
>>> from loopwright import nn
>>> nn.relu(np.float32([-1, 0, 2])).tolist()
[0.0, 0.0, 2.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dtype import DType, float_for
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.nodes import Constant
from ..ir.ops import get
from .emitting import common_dtype, dtype_argument, emit, lift
from .parameters import Axes, DTypeLike, Ints, Pair, Widths, by_numpy, checked
from .proxy import Proxy
from .trace import active

__all__ = [
    "avg_pool2d",
    "batch_norm",
    "conv2d",
    "dense",
    "erf",
    "gelu",
    "global_avg_pool2d",
    "global_max_pool2d",
    "layer_norm",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "one_hot",
    "pad",
    "relu",
    "rms_norm",
    "rsqrt",
    "sigmoid",
    "silu",
    "softmax",
]


def _apply(name: str, *operands: Any, floats: bool = True, **attrs: Any) -> Any:
    """The operator on its operands in their common dtype: emitted while tracing, else computed."""
    if active() is not None:
        return _emit(name, floats, *operands, **attrs)
    arrays = [np.asarray(o) for o in operands]
    dtype = _dtype(arrays, floats).numpy
    operator = get(name)
    converted = [a.astype(dtype, copy=False) for a in arrays]
    complete = operator.complete_attrs(attrs)
    operator.infer(tuple(Constant(a).type for a in converted), complete)  # raises what is wrong
    return by_numpy(operator.reference, converted, complete)


def _emit(name: str, floats: bool, *operands: Any, **attrs: Any) -> Proxy:
    dtype = _dtype(operands, floats)
    return emit(name, *(lift(o, dtype) for o in operands), **attrs)


def _dtype(operands: Sequence[Any], floats: bool) -> DType:
    dtype = common_dtype(*operands)
    return float_for(dtype) if floats else dtype


@checked
def relu(x: Any) -> Any:
    """``max(x, 0)`` by element, for any dtype but bool; NaN stays NaN."""
    return _apply("nn.relu", x, floats=False)


@checked
def gelu(x: Any, approximate: str = "none") -> Any:
    """The Gaussian error linear unit, ``x * Phi(x)``.

    ``approximate="none"`` uses erf, ``"tanh"`` the formula with tanh of Hendrycks and Gimpel,
    "Gaussian Error Linear Units" (2016). Any shape; a float dtype.
    """
    return _apply("nn.gelu", x, approximate=approximate)


@checked
def silu(x: Any) -> Any:
    """``x * sigmoid(x)`` by element, also called swish. Any shape; a float dtype."""
    return _apply("nn.silu", x)


@checked
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))`` by element, without overflow. Any shape; a float dtype."""
    return _apply("sigmoid", x)


@checked
def erf(x: Any) -> Any:
    """The error function by element. Any shape; a float dtype."""
    return _apply("erf", x)


@checked
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)`` by element. Any shape; a float dtype."""
    return _apply("rsqrt", x)


@checked
def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along ``axis``, computed from ``x - max(x)``.

    The result has the shape of ``x`` and sums to 1 along ``axis``. One kernel.
    """
    return _apply("nn.softmax", x, axis=axis)


@checked
def log_softmax(x: Any, axis: int = -1) -> Any:
    """``log(softmax(x))`` along ``axis``, without the loss of taking the logarithm afterwards."""
    return _apply("nn.log_softmax", x, axis=axis)


@checked
def layer_norm(
    x: Any, gamma: Any = None, beta: Any = None, axis: Axes = -1, epsilon: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` with the moments along ``axis``.

    ``axis`` is one axis or several that follow each other, ``(1, 2)``. ``gamma`` and ``beta`` have
    the sizes of these axes; left out, they are ones and zeros. Ba, Kiros and Hinton, "Layer
    Normalization" (2016).
    """
    return _over_axes("nn.layer_norm", x, axis, [(gamma, 1.0), (beta, 0.0)], epsilon)


@checked
def rms_norm(x: Any, gamma: Any = None, axis: Axes = -1, epsilon: float = 1e-5) -> Any:
    """``x / sqrt(mean(x * x) + epsilon) * gamma`` with the mean along ``axis``.

    ``axis`` as in ``layer_norm``. ``gamma`` has the sizes of these axes; left out, it is ones.
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
    """
    return _over_axes("nn.rms_norm", x, axis, [(gamma, 1.0)], epsilon)


def _over_axes(
    name: str, x: Any, axis: int | Sequence[int], scales: list[tuple[Any, float]], epsilon: float
) -> Any:
    """A norm of ``x``; several axes that follow each other are merged into one for it."""
    shape = tuple(np.shape(x))
    axes = _axes(name, axis, len(shape))
    sizes = shape[axes[0] : axes[-1] + 1]
    operands = [x, *(_scale(x, sizes, given, value) for given, value in scales)]
    if len(axes) == 1:
        return _apply(name, *operands, axis=axes[0], epsilon=epsilon)
    for operand in operands[1:]:
        if tuple(np.shape(operand)) != sizes:
            raise LoopwrightTypeError(
                f"{name}: a scale over the axes {axes} has their sizes {sizes}, "
                f"not {tuple(np.shape(operand))}"
            )
    merged = math.prod(sizes)
    flat = [np.reshape(x, (*shape[: axes[0]], merged, *shape[axes[-1] + 1 :]))]
    flat += [np.reshape(o, (merged,)) for o in operands[1:]]
    return np.reshape(_apply(name, *flat, axis=axes[0], epsilon=epsilon), shape)


def _axes(name: str, axis: int | Sequence[int], rank: int) -> tuple[int, ...]:
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(a + rank if a < 0 else a for a in given))
    if not axes or axes[0] < 0 or axes[-1] >= rank:
        raise LoopwrightValueError(f"{name}: axis {axis} is out of range for {rank} axes")
    if axes != tuple(range(axes[0], axes[0] + len(axes))):
        raise LoopwrightValueError(
            f"{name}: the axes {axis} do not follow each other", hint="np.moveaxis before and after"
        )
    return axes


def _scale(x: Any, sizes: tuple[Any, ...], given: Any, value: float) -> Any:
    if given is not None:
        return given
    dtype = float_for(common_dtype(x))
    if all(isinstance(s, int) for s in sizes):
        return np.full(sizes, value, dtype.numpy)
    return emit("full", shape=sizes, fill_value=value, dtype=str(dtype))


@checked
def batch_norm(
    x: Any, gamma: Any, beta: Any, mean: Any, var: Any, axis: int = 1, epsilon: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta``: batch normalisation as inference has it.

    ``gamma, beta, mean, var`` have the shape ``(x.shape[axis],)``; ``mean`` and ``var`` are the
    running moments. Ioffe and Szegedy, "Batch Normalization" (2015).
    """
    return _apply("nn.batch_norm", x, gamma, beta, mean, var, axis=axis, epsilon=epsilon)


@checked
def matmul(a: Any, b: Any) -> Any:
    """``a @ b`` as NumPy has it, for integer dtypes, too."""
    return _apply("nn.matmul", a, b, floats=False)


@checked
def dense(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias`` for ``(..., k)``, ``(units, k)`` and ``(units,)``."""
    result = by_numpy(lambda: np.matmul(x, np.matrix_transpose(weight)))
    return result if bias is None else by_numpy(np.add, result, bias)


@checked
def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    strides: Pair = 1,
    padding: Ints | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str | None = None,
    algorithm: str = "auto",
) -> Any:
    """Two-dimensional convolution (cross-correlation, as everywhere in deep learning).

    ``x`` is ``(n, c, h, w)`` for ``data_layout="NCHW"``, ``(n, h, w, c)`` for ``"NHWC"``. ``w`` is
    ``(out, c / groups, kh, kw)`` for ``kernel_layout="OIHW"`` (the default with NCHW) and
    ``(kh, kw, c / groups, out)`` for ``"HWIO"`` (the default with NHWC). ``bias`` is ``(out,)``.
    ``padding`` is one int, ``(vertical, horizontal)``, ``(top, left, bottom, right)``, ``"same"``
    or ``"valid"``; the result has ``(h + top + bottom - dilation * (kh - 1) - 1) // stride + 1``
    rows. ``algorithm`` is ``"direct"``, ``"winograd2"``, ``"winograd4"`` or ``"auto"``: what is
    quickest within the ``precision`` of ``lw.compile``. Raises LoopwrightTypeError where shapes do
    not fit.
    """
    kernel = kernel_layout or ("HWIO" if data_layout == "NHWC" else "OIHW")
    step, spread = _twice(strides), _twice(dilation)
    window = _window(np.shape(w), kernel)
    result = _apply(
        "nn.conv2d",
        x,
        w,
        strides=step,
        padding=_padding(padding, window, spread, step),
        dilation=spread,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel,
        algorithm=algorithm,
    )
    if bias is None:
        return result
    shaped = np.reshape(bias, (-1, 1, 1)) if data_layout == "NCHW" else bias
    return by_numpy(np.add, result, shaped)


def _window(shape: Sequence[Any], layout: str) -> tuple[int, int]:
    if len(shape) != 4 or {"H", "W"} - set(layout):
        return 1, 1  # the operator's type rule says what is wrong
    return int(shape[layout.index("H")]), int(shape[layout.index("W")])


@checked
def max_pool2d(
    x: Any,
    pool_size: Pair,
    *,
    strides: Pair | None = None,
    padding: Ints | str = 0,
    dilation: Pair = 1,
    layout: str = "NCHW",
    ceil_mode: bool = False,
) -> Any:
    """The greatest element of each window; padding counts as minus infinity.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.
    """
    window, spread = _twice(pool_size), _twice(dilation)
    step = window if strides is None else _twice(strides)
    return _apply(
        "nn.max_pool2d",
        x,
        floats=False,
        pool_size=window,
        strides=step,
        padding=_padding(padding, window, spread, step),
        dilation=spread,
        layout=layout,
        ceil_mode=ceil_mode,
    )


@checked
def avg_pool2d(
    x: Any,
    pool_size: Pair,
    *,
    strides: Pair | None = None,
    padding: Ints | str = 0,
    dilation: Pair = 1,
    layout: str = "NCHW",
    count_include_pad: bool = False,
    ceil_mode: bool = False,
) -> Any:
    """The mean of each window, of the real elements only unless ``count_include_pad``.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.
    """
    window, spread = _twice(pool_size), _twice(dilation)
    step = window if strides is None else _twice(strides)
    return _apply(
        "nn.avg_pool2d",
        x,
        pool_size=window,
        strides=step,
        padding=_padding(padding, window, spread, step),
        dilation=spread,
        layout=layout,
        count_include_pad=count_include_pad,
        ceil_mode=ceil_mode,
    )


@checked
def global_avg_pool2d(x: Any, layout: str = "NCHW") -> Any:
    """The mean over both image axes, which stay with size 1."""
    return _apply("nn.global_avg_pool2d", x, layout=layout)


@checked
def global_max_pool2d(x: Any, layout: str = "NCHW") -> Any:
    """The greatest element over both image axes, which stay with size 1."""
    return _apply("nn.global_max_pool2d", x, floats=False, layout=layout)


@checked
def pad(x: Any, pad_width: Widths, value: float = 0, mode: str = "constant") -> Any:
    """``np.pad`` with one ``value``; ``mode`` is ``"constant"``, ``"edge"`` or ``"reflect"``."""
    options = {"constant_values": value} if mode == "constant" else {}
    return by_numpy(np.pad, x, pad_width, mode=mode, **options)


@checked
def one_hot(indices: Any, depth: int, dtype: DTypeLike = np.float32) -> Any:
    """``result[..., j] = 1`` where ``j == indices[...]``, 0 elsewhere; a last axis of ``depth``."""
    return _apply("one_hot", indices, floats=False, depth=depth, dtype=str(dtype_argument(dtype)))


def _twice(value: Any) -> tuple[int, int]:
    """A default of one int, or the pair that a user's value was made."""
    return (value, value) if isinstance(value, int) else value


def _padding(
    padding: Ints | str, window: tuple[int, int], spread: tuple[int, int], step: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right)."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        if step != (1, 1):
            raise LoopwrightValueError('padding="same" needs strides of 1', hint="ints for padding")
        whole = [d * (k - 1) for d, k in zip(spread, window, strict=True)]
        return whole[0] // 2, whole[1] // 2, whole[0] - whole[0] // 2, whole[1] - whole[1] // 2
    if isinstance(padding, str):
        raise LoopwrightValueError(f'padding {padding!r} is neither "same" nor "valid"')
    if isinstance(padding, int):
        return padding, padding, padding, padding
    given = tuple(padding)
    if len(given) == 2:
        return given[0], given[1], given[0], given[1]
    if len(given) == 4:
        return given[0], given[1], given[2], given[3]
    raise LoopwrightTypeError(f"padding is 1, 2 or 4 ints, not {padding!r}")
