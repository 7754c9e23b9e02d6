"""Converters of Fourier transforms and what signals need around them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError
from .table import Value, converter, known, known_ints
from .tensors import numpy_dtype

MOST_TWIDDLES = 1 << 24
"""Elements of a matrix of a transform's factors. Longer transforms are cut in two shorter ones."""


@converter("DFT", since=17)
def _dft_along_attribute(
    x: Value, length: Value = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    return _dft(x, length, axis, inverse, onesided)


@converter("DFT", since=20)
def _dft_along_input(
    x: Value,
    length: Value = None,
    axis: Value = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Value:
    along = -2 if axis is None else known_ints(axis, "axis")[0]
    return _dft(x, length, along, inverse, onesided)


def _dft(x: Value, length: Value, axis: int, inverse: int, onesided: int) -> Value:
    """The transform along an axis; the last axis holds real and imaginary parts, or real ones."""
    axis = axis % x.ndim
    rows = np.moveaxis(x, axis, -2)
    real, imaginary = rows[..., 0], rows[..., 1] if rows.shape[-1] == 2 else None
    wanted = None if length is None else known_ints(length, "dft_length")[0]
    if inverse and onesided:  # the other half of the spectrum mirrors this one
        size = 2 * (real.shape[-1] - 1) if wanted is None else wanted
        real, imaginary = _whole_spectrum(real, imaginary, size)
    elif wanted is not None:
        real, imaginary = _resized(real, wanted), _resized(imaginary, wanted)
    made = transform(real, imaginary, inverse=bool(inverse))
    if onesided:
        made = (made[0],) if inverse else tuple(p[..., : p.shape[-1] // 2 + 1] for p in made)
    return np.moveaxis(np.stack(made, axis=-1), -2, axis)


def _resized(x: Value, size: int) -> Value:
    """``x`` cut, or filled up with zeros, along its last axis."""
    if x is None or x.shape[-1] == size:
        return x
    if x.shape[-1] > size:
        return x[..., :size]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])])


def _whole_spectrum(real: Value, imaginary: Value, size: int) -> tuple[Value, Value]:
    half = size // 2 + 1
    real = _resized(real, half)
    imaginary = np.zeros_like(real) if imaginary is None else _resized(imaginary, half)
    rest = size - half
    return (
        np.concatenate([real, np.flip(real[..., 1 : 1 + rest], -1)], -1),
        np.concatenate([imaginary, -np.flip(imaginary[..., 1 : 1 + rest], -1)], -1),
    )


def transform(real: Value, imaginary: Value, *, inverse: bool) -> tuple[Value, Value]:
    """The discrete Fourier transform of the last axis, as real and imaginary parts.

    A long one is done as two shorter ones ("An algorithm for the machine calculation of complex
    Fourier series", Cooley and Tukey, 1965), as long as its length has a divisor; each is a product
    with a matrix of constants.
    """
    size = real.shape[-1]
    result = _parts(real, imaginary, size, 1 if inverse else -1)
    return (result[0] / size, result[1] / size) if inverse else result


def _parts(real: Value, imaginary: Value, size: int, sign: int) -> tuple[Value, Value]:
    divisor = next((n for n in range(math.isqrt(size), 1, -1) if size % n == 0), 1)
    if size <= LONGEST_PRODUCT or divisor == 1:
        if size * size > MOST_TWIDDLES:
            raise LoopwrightValueError(f"a transform of {size} elements, which is a large prime")
        return _product(
            real, imaginary, _factors(np.outer(np.arange(size), np.arange(size)), size, sign)
        )
    # n = other * a + b, k = c + divisor * d: transforms over a, factors of b and c, then over b.
    other = size // divisor
    shape = (*real.shape[:-1], divisor, other)
    columns = [
        None if p is None else np.swapaxes(np.reshape(p, shape), -1, -2) for p in (real, imaginary)
    ]
    first = _parts(columns[0], columns[1], divisor, sign)
    rotated = _times(first, _factors(np.outer(np.arange(other), np.arange(divisor)), size, sign))
    rows = [np.swapaxes(p, -1, -2) for p in rotated]
    last = _parts(rows[0], rows[1], other, sign)
    flat = [np.reshape(np.swapaxes(p, -1, -2), (*real.shape[:-1], size)) for p in last]
    return flat[0], flat[1]


LONGEST_PRODUCT = 256
"""Elements up to which a transform is one product with a matrix."""


def _factors(powers: Array, size: int, sign: int) -> tuple[Array, Array]:
    """Real and imaginary parts of roots of one, the angles reduced before they are rounded."""
    angles = 2 * np.pi * sign / size * (powers % size)
    return np.cos(angles), np.sin(angles)


def _product(real: Value, imaginary: Value, factors: tuple[Array, Array]) -> tuple[Value, Value]:
    cosines, sines = (f.astype(real.dtype) for f in factors)
    if imaginary is None:
        return real @ cosines, real @ sines
    return real @ cosines - imaginary @ sines, real @ sines + imaginary @ cosines


def _times(value: tuple[Value, Value], factors: tuple[Array, Array]) -> tuple[Value, Value]:
    real, imaginary = value
    cosines, sines = (f.astype(real.dtype) for f in factors)
    return real * cosines - imaginary * sines, real * sines + imaginary * cosines


@converter("STFT", since=17)
def _stft(
    signal: Value,
    step: Value,
    window: Value = None,
    length: Value = None,
    *,
    onesided: int = 1,
) -> Value:
    (stride,) = known_ints(step, "frame_step")
    if length is not None:
        (size,) = known_ints(length, "frame_length")
    elif window is not None:
        size = window.shape[0]
    else:
        raise LoopwrightValueError("it has neither a window nor a frame_length")
    if signal.ndim == 2:
        signal = np.expand_dims(signal, -1)
    starts = range(0, signal.shape[1] - size + 1, stride)
    places = np.array(starts)[:, None] + np.arange(size)
    parts = [np.take(signal[..., n], places, axis=1) for n in range(signal.shape[-1])]
    if window is not None:
        # A window that is shorter than a frame stands in its middle.
        before = (size - window.shape[0]) // 2
        window = np.pad(window, [(before, size - window.shape[0] - before)])
        parts = [part * window for part in parts]
    real, imaginary = transform(parts[0], parts[1] if len(parts) == 2 else None, inverse=False)
    if onesided:
        real, imaginary = (p[..., : size // 2 + 1] for p in (real, imaginary))
    return np.stack([real, imaginary], axis=-1)


def _window(shape: Callable[[Array], Array]) -> Callable[..., Value]:
    def converted(size: Value, *, output_datatype: int = 1, periodic: int = 1) -> Value:
        (count,) = known_ints(size, "size")
        angles = 2 * np.pi * np.arange(count) / max(1, count if periodic else count - 1)
        return shape(angles).astype(numpy_dtype(output_datatype))

    return converted


converter("HannWindow", since=17)(_window(lambda a: 0.5 - 0.5 * np.cos(a)))
converter("HammingWindow", since=17)(_window(lambda a: 25 / 46 - (1 - 25 / 46) * np.cos(a)))
converter("BlackmanWindow", since=17)(
    _window(lambda a: 0.42 - 0.5 * np.cos(a) + 0.08 * np.cos(2 * a))
)


@converter("MelWeightMatrix", since=17)
def _mel_weight_matrix(
    bins: Value, length: Value, rate: Value, low: Value, high: Value, *, output_datatype: int = 1
) -> Value:
    """Triangles between equally spaced frequencies of the mel scale."""
    (count,), (size,) = known_ints(bins, "num_mel_bins"), known_ints(length, "dft_length")
    edges = [known(v, w).item() for v, w in ((low, "lower_edge_hertz"), (high, "upper_edge_hertz"))]
    mels = [2595 * math.log10(1 + hertz / 700) for hertz in edges]
    step = (mels[1] - mels[0]) / (count + 2)
    hertz = 700 * (10 ** ((mels[0] + step * np.arange(count + 2)) / 2595) - 1)
    places = np.floor((size + 1) * hertz / known(rate, "sample_rate").item()).astype(np.int64)
    weights = np.zeros((size // 2 + 1, count))
    for n in range(count):
        left, middle, right = places[n : n + 3].tolist()
        if middle == left:
            weights[middle, n] = 1
        for j in range(left, middle + 1) if middle != left else ():
            weights[j, n] = (j - left) / (middle - left)
        for j in range(middle, right) if right != middle else ():
            weights[j, n] = (right - j) / (right - middle)
    return weights.astype(numpy_dtype(output_datatype))
