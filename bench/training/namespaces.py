"""What the models are written with, as each library has it. Its package is imported here only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EPSILON = 1e-5
"""What normalisations add to variances: torch's default."""


class _Arrays:
    """The parts of a model that NumPy's functions and ``nn`` give: ours and JAX's."""

    def __init__(self, xp: Any, nn: Any) -> None:
        self.xp, self.relu, self.sigmoid = xp, nn.relu, nn.sigmoid
        self.softmax, self.log_softmax = nn.softmax, nn.log_softmax

    def _normal(self, x: Any, axes: Any) -> Any:
        centred = x - x.mean(axis=axes, keepdims=True)
        variance = (centred**2).mean(axis=axes, keepdims=True)
        return centred / self.xp.sqrt(variance + EPSILON)

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self._normal(x, (0, 2, 3)) * scale[:, None, None] + shift[:, None, None]

    def layer_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self._normal(x, -1) * scale + shift

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        length, width = q.shape[-2:]
        mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        scores = q @ k.swapaxes(-1, -2) * np.float32(1 / math.sqrt(width)) + mask
        return self.softmax(scores, axis=-1) @ v

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        logs = self.log_softmax(scores, axis=-1)
        return -self.xp.take_along_axis(logs, labels[..., None], axis=-1).mean()

    def scan(self, step: Any, carry: Any, rows: Any) -> Any:
        raise NotImplementedError

    def lstm(self, x: Any, w: Any, r: Any, b: Any) -> Any:
        cells = r.shape[1]

        def step(carry: Any, row: Any) -> Any:
            h, c = carry
            gates = row @ w.T + h @ r.T + b
            i, f, g, o = (gates[:, n * cells : (n + 1) * cells] for n in range(4))
            c = self.sigmoid(f) * c + self.sigmoid(i) * self.xp.tanh(g)
            return (self.sigmoid(o) * self.xp.tanh(c), c), None

        start = self.xp.zeros((x.shape[1], cells), np.float32)
        return self.scan(step, (start, start), x)[0][0]


class Ours(_Arrays):
    def __init__(self) -> None:
        import loopwright as lw

        super().__init__(np, lw.nn)
        self.nn, self.scan = lw.nn, lw.scan

    def conv(self, x: Any, kernel: Any, stride: int, padding: int) -> Any:
        return self.nn.conv2d(x, kernel, strides=stride, padding=padding)

    def max_pool(self, x: Any, window: int, stride: int, padding: int) -> Any:
        return self.nn.max_pool2d(x, window, strides=stride, padding=padding)

    def gelu(self, x: Any) -> Any:
        return self.nn.gelu(x, approximate="tanh")


class Jax(_Arrays):
    def __init__(self) -> None:
        import jax

        super().__init__(jax.numpy, jax.nn)
        self.lax, self.gelu, self.scan = jax.lax, jax.nn.gelu, jax.lax.scan

    def conv(self, x: Any, kernel: Any, stride: int, padding: int) -> Any:
        return self.lax.conv_general_dilated(x, kernel, (stride, stride), [(padding, padding)] * 2)

    def max_pool(self, x: Any, window: int, stride: int, padding: int) -> Any:
        sizes, steps = (1, 1, window, window), (1, 1, stride, stride)
        pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        return self.lax.reduce_window(x, -np.inf, self.lax.max, sizes, steps, pads)


class Torch:
    """``recurrence`` says how an LSTM runs: as PyTorch's own, its ``"scan"``, or a ``"loop"`` of
    Python, which dynamo unrolls."""

    def __init__(self, recurrence: str = "") -> None:
        import torch

        self.torch, self.relu = torch, torch.relu
        self.F: Any = torch.nn.functional
        self.recurrence = recurrence

    def conv(self, x: Any, kernel: Any, stride: int, padding: int) -> Any:
        return self.F.conv2d(x, kernel, stride=stride, padding=padding)

    def max_pool(self, x: Any, window: int, stride: int, padding: int) -> Any:
        return self.F.max_pool2d(x, window, stride, padding)

    def gelu(self, x: Any) -> Any:
        return self.F.gelu(x, approximate="tanh")

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self.F.batch_norm(x, None, None, scale, shift, training=True)

    def layer_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self.F.layer_norm(x, scale.shape, scale, shift)

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        return self.F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))

    def lstm(self, x: Any, w: Any, r: Any, b: Any) -> Any:
        start = x.new_zeros(x.shape[1], r.shape[1])

        def step(carry: Any, row: Any) -> Any:
            h, c = carry
            i, f, g, o = (row @ w.T + h @ r.T + b).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            return (h, c), h.clone()

        carry: Any = (start, start.clone())
        if self.recurrence == "scan":
            from torch._higher_order_ops.scan import scan

            return scan(step, carry, x)[0][0]
        if self.recurrence == "loop":
            for row in x:
                carry, _ = step(carry, row)
            return carry[0]
        states = [state[None] for state in carry]
        weights = [w, r, b, self.torch.zeros_like(b)]
        options = (True, 1, 0.0, True, False, False)
        return self.torch._VF.lstm(x, states, weights, *options)[1][0]
