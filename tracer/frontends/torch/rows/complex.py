"""Complex numbers, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.emitting import emit, lift
from ..table import Value, aten
from ..tensors import is_float


@aten("complex.default")
def _complex(real: Value, imag: Value) -> Value:
    return emit("complex", lift(real), lift(imag))


@aten("view_as_complex.default")
def _view_as_complex(self: Value) -> Value:
    return _complex(self[..., 0], self[..., 1])


@aten("view_as_real.default")
def _view_as_real(self: Value) -> Value:
    return np.stack([np.real(self), np.imag(self)], axis=-1)


@aten("polar.default")
def _polar(abs: Value, angle: Value) -> Value:
    return _complex(abs * np.cos(angle), abs * np.sin(angle))


for _name in ("_conj", "_conj_physical", "conj_physical"):
    aten(f"{_name}.default")(lambda self: np.conj(self))


@aten("angle.default")
def _angle(self: Value) -> Value:
    """A real number has the angle 0, also one that is -0."""
    if self.dtype.kind == "c":
        return np.angle(self)
    angle = np.where(self < 0, np.pi, 0.0)
    return np.where(np.isnan(self), self, angle) if is_float(self) else angle


def _norm(normalization: int, forward: bool) -> str:
    """Returns NumPy's word for PyTorch's: nothing, divided by the root of the size, or by it."""
    return ("backward" if forward else "forward", "ortho", "forward" if forward else "backward")[
        normalization
    ]


@aten("_fft_c2c.default")
def _complex_transform(self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    transform: Callable[..., Any] = np.fft.fftn if forward else np.fft.ifftn
    return transform(self, axes=tuple(dim), norm=_norm(normalization, forward))


@aten("_fft_r2c.default")
def _real_transform(self: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    transform: Callable[..., Any] = np.fft.rfftn if onesided else np.fft.fftn
    return transform(self, axes=tuple(dim), norm=_norm(normalization, True))


@aten("_fft_c2r.default")
def _to_real_transform(
    self: Value, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Value:
    sizes = [self.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return np.fft.irfftn(self, s=sizes, axes=tuple(dim), norm=_norm(normalization, False))
