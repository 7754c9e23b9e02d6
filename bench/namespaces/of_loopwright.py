"""The same NumPy code where NumPy has the operator, ``lw.nn`` where it has not."""

from __future__ import annotations

from typing import Any

import loopwright as lw

from .of_numpy import Numpy

__all__ = ["Loopwright"]


class Loopwright(Numpy):
    """Attention, RMS norm and the rest that is not here is traced from the NumPy code."""

    sigmoid = staticmethod(lw.nn.sigmoid)
    silu = staticmethod(lw.nn.silu)
    gelu = staticmethod(lw.nn.gelu)
    softmax = staticmethod(lw.nn.softmax)
    log_softmax = staticmethod(lw.nn.log_softmax)
    layer_norm = staticmethod(lw.nn.layer_norm)
    rms_norm = staticmethod(lw.nn.rms_norm)
    global_avg_pool = staticmethod(lw.nn.global_avg_pool2d)
    global_max_pool = staticmethod(lw.nn.global_max_pool2d)

    def take(self, x: Any, index: Any, axis: int) -> Any:
        return lw.xp.take(x, index, axis=axis)  # np.take does not hand over for an index alone

    def copy(self, x: Any) -> Any:
        return x  # results are contiguous

    def gelu_tanh(self, x: Any) -> Any:
        return lw.nn.gelu(x, approximate="tanh")

    def conv2d(
        self, x: Any, w: Any, *, padding: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Any:
        return lw.nn.conv2d(x, w, padding=padding, strides=stride, dilation=dilation, groups=groups)

    def max_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return lw.nn.max_pool2d(x, kernel, strides=stride, padding=padding)

    def avg_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return lw.nn.avg_pool2d(x, kernel, strides=stride, padding=padding)
