"""np.linalg and np.fft, compiled, beside NumPy: ``python -m bench.linalg``.

One thread each (``OPENBLAS_NUM_THREADS=1`` for NumPy's library, which both call). The times are the
least of many calls, of which those of the two alternate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import loopwright as lw
import numpy as np

from .lock import MachineLock

__all__ = ["main", "rows"]

SECONDS = 0.3
"""Time for each row."""

Row = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _matrices(rng: np.random.Generator, size: int, *stack: int) -> Any:
    """Returns positive definite matrices."""
    a = rng.standard_normal((*stack, size, size))
    return a @ np.swapaxes(a, -1, -2) + size * np.eye(size)


def rows() -> Iterator[Row]:
    """Yields what is timed: its name, the function and its arguments."""
    rng, linalg, fft = np.random.default_rng(0), np.linalg, np.fft
    for size in (3, 8, 32, 128):
        a = _matrices(rng, size)
        yield f"solve {size}", linalg.solve, (a, a[0].copy())
        for name in ("inv", "det", "cholesky", "eigh", "svd", "qr"):
            yield f"{name} {size}", getattr(linalg, name), (a,)
    stack = _matrices(rng, 3, 100_000)
    yield "solve 100,000 x 3", linalg.solve, (stack, stack[..., :1].copy())
    for name in ("inv", "det", "cholesky"):
        yield f"{name} 100,000 x 3", getattr(linalg, name), (stack,)
    for size in (64, 1024, 65536):
        x = rng.standard_normal(size)
        yield f"fft {size}", fft.fft, (x + 1j * x[::-1],)
        yield f"rfft {size}", fft.rfft, (x,)
        yield f"irfft {size}", fft.irfft, (fft.rfft(x),)
    image = rng.standard_normal((256, 256))
    yield "fft2 256", fft.fft2, (image + 0j,)
    yield "rfft2 256", fft.rfft2, (image,)


def least_seconds(calls: list[Callable[[], Any]], seconds: float = SECONDS) -> list[float]:
    """Returns the least time of each of some calls, which alternate."""
    for call in calls:
        call()
    least = [math.inf] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or math.inf in least:
        for n, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[n] = min(least[n], time.perf_counter() - begin)
    return least


def main() -> int:
    """Prints a line for each row."""
    with MachineLock():
        for name, function, arguments in rows():
            compiled = lw.compile(function, threads=1)
            theirs, ours = least_seconds(
                [
                    lambda f=function, a=arguments: f(*a),
                    lambda f=compiled, a=arguments: f(*a),
                ]
            )
            ratio = f"{theirs / ours:6.2f}x"
            print(f"{name:20} {theirs * 1e6:10.2f} us {ours * 1e6:10.2f} us {ratio}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
