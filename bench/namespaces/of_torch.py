"""PyTorch, for eager calls and for ``torch.compile``."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as nn

__all__ = ["Torch"]


class Torch:
    """``torch`` and ``torch.nn.functional``."""

    matmul = staticmethod(torch.matmul)
    exp = staticmethod(torch.exp)
    sqrt = staticmethod(torch.sqrt)
    tanh = staticmethod(torch.tanh)
    relu = staticmethod(torch.relu)
    sigmoid = staticmethod(torch.sigmoid)
    silu = staticmethod(nn.silu)
    gelu = staticmethod(nn.gelu)
    reshape = staticmethod(torch.reshape)

    def function(self, name: str, *operands: Any) -> Any:
        other = {"power": "pow", "rint": "round"}.get(name, name)
        return getattr(nn if name == "gelu" else torch, other)(*operands)

    def matmul_int32(self, x: Any, w: Any) -> Any:
        return torch._int_mm(x, w)

    def copy(self, x: Any) -> Any:
        return x.contiguous()

    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def take(self, x: Any, index: Any, axis: int) -> Any:
        return x.index_select(axis, index)

    def pad(self, x: Any, widths: Any) -> Any:
        return nn.pad(x, [n for pair in reversed(widths) for n in pair])

    def concat(self, parts: Any, axis: int) -> Any:
        return torch.cat(parts, dim=axis)

    def slice(self, x: Any, begin: tuple[int, ...], end: tuple[int, ...]) -> Any:
        return x[tuple(slice(b, e) for b, e in zip(begin, end))]

    def sum(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.sum(dim=axis)

    def mean(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.mean(dim=axis)

    def max(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.amax(dim=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(dim=axis)

    def gelu_tanh(self, x: Any) -> Any:
        return nn.gelu(x, approximate="tanh")

    def softmax(self, x: Any, axis: int = -1) -> Any:
        return torch.softmax(x, dim=axis)

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return torch.log_softmax(x, dim=axis)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return nn.layer_norm(x, x.shape[-1:], gamma, beta)

    def rms_norm(self, x: Any, gamma: Any) -> Any:
        return nn.rms_norm(x, x.shape[-1:], gamma, 1e-5)

    def conv2d(
        self, x: Any, w: Any, *, padding: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Any:
        return nn.conv2d(x, w, None, stride, padding, dilation, groups)

    def max_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return nn.max_pool2d(x, kernel, stride, padding)

    def avg_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return nn.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)

    def global_avg_pool(self, x: Any) -> Any:
        return x.mean(dim=(2, 3), keepdim=True)

    def global_max_pool(self, x: Any) -> Any:
        return x.amax(dim=(2, 3), keepdim=True)

    def attention(
        self, q: Any, k: Any, v: Any, *, causal: bool, shape: tuple[int, int, int, int]
    ) -> Any:
        batched = (q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0))
        return nn.scaled_dot_product_attention(*batched, is_causal=causal).squeeze(0)
