"""``lw.nn``: what neural networks need and NumPy lacks.

The functions take NumPy arrays or traced ones. On plain arrays they compute at once, with the
operator's NumPy reference; in a compiled function they become one operator each. A function that
adds nothing to its operator is not written here: it is made from the operator's declaration.

>>> import numpy as np
>>> from loopwright import nn
>>> nn.relu(np.float32([-1, 0, 2])).tolist()
[0.0, 0.0, 2.0]
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.dtype import DType, float_for
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.nodes import Constant
from ..ir.graph.operator import REQUIRED, Operator
from ..ir.loop.scalar import SCALAR_OPS
from ..ir.ops import all_operators, get
from .emitting import common_dtype, dtype_argument, emit, lift
from .parameters import Axes, DTypeLike, Ints, Pair, Widths, by_numpy, checked
from .proxy import Proxy
from .trace import active

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A function made from its operator's declaration."""


__all__ = [
    "avg_pool2d",
    "conv2d",
    "dense",
    "layer_norm",
    "max_pool2d",
    "one_hot",
    "pad",
    "rms_norm",
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
    """Returns a norm of ``x``; several axes that follow each other are merged into one for it."""
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
    """Returns the greatest element of each window; padding counts as minus infinity.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.
    """
    attrs = _windows(pool_size, strides, padding, dilation, layout=layout, ceil_mode=ceil_mode)
    return _apply("nn.max_pool2d", x, floats=False, **attrs)


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
    """Returns the mean of each window, of the real elements only unless ``count_include_pad``.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.
    """
    attrs = _windows(pool_size, strides, padding, dilation, layout=layout, ceil_mode=ceil_mode)
    return _apply("nn.avg_pool2d", x, count_include_pad=count_include_pad, **attrs)


def _windows(
    pool_size: Any, strides: Any, padding: Any, dilation: Any, **rest: Any
) -> dict[str, Any]:
    """Returns the attributes of a pooling operator."""
    window, spread = _twice(pool_size), _twice(dilation)
    step = window if strides is None else _twice(strides)
    pads = _padding(padding, window, spread, step)
    return {"pool_size": window, "strides": step, "padding": pads, "dilation": spread, **rest}


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
    """Returns a default of one int, or the pair that a user's value was made."""
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


def _declared(op: Operator) -> Callable[..., Any]:
    """The function that applies ``op``; its parameters are the operands and the attributes."""
    count = len(op.params)

    def function(*args: Any) -> Any:
        attrs = {a.name: value for a, value in zip(op.attrs, args[count:], strict=False)}
        return _apply(op.name, *args[:count], floats=op.dtypes == "f", **attrs)

    def parameter(name: str, kind: str, default: Any = REQUIRED) -> inspect.Parameter:
        given = inspect.Parameter.empty if default is REQUIRED else default
        form = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, form, default=given, annotation=kind)

    parameters = [parameter(name, "Any") for name in op.params]
    parameters += [parameter(a.name, a.kind, a.default) for a in op.attrs]
    function.__name__ = function.__qualname__ = op.name.removeprefix("nn.")
    function.__doc__ = op.doc.partition("\n    ")[0].rstrip()
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return checked(function)


def _is_ours(op: Operator) -> bool:
    """True if NumPy has no function that stands for ``op``."""
    row = SCALAR_OPS.get(op.name)
    return op.name.startswith("nn.") if row is None else row.is_ours


_DECLARED = {
    name: _declared(op)
    for op in all_operators().values()
    if _is_ours(op) and (name := op.name.removeprefix("nn.")) not in __all__
}
globals().update(_DECLARED)
__all__ += _DECLARED  # pyright: ignore[reportUnsupportedDunderAll]
