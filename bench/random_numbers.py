"""Time ``lw.random`` beside NumPy's generators and PyTorch's.

    python -m bench.random_numbers                  every distribution, dtype and size, one thread
    python -m bench.random_numbers --ops uniform,normal --sizes 1000 --threads 2

Prints nanoseconds per number of untuned compiled functions, of the fastest of NumPy's PCG64, SFC64
and Philox, and of PyTorch, and the time of the faster of these two over ours: 1 or more is the bar,
and the exit status is 1 if one is missed. NumPy's generators use one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.runtime.pool import set_threads

from .lock import MachineLock
from .row import geomean

__all__ = ["OPS", "main"]

_FLOATS = ("float32", "float64")

# What is drawn, the dtypes, and n numbers of dtype d by us of a key, by NumPy, and by PyTorch.
OPS: dict[str, tuple[tuple[str, ...], Any, Any, Any]] = {
    "uniform": (
        _FLOATS,
        lambda key, n, d: lw.random.uniform(key, n, dtype=d),
        lambda rng, n, d: rng.random(n, d),
        lambda torch, n, d: torch.rand(n, dtype=d),
    ),
    "normal": (
        _FLOATS,
        lambda key, n, d: lw.random.normal(key, n, dtype=d),
        lambda rng, n, d: rng.standard_normal(n, d),
        lambda torch, n, d: torch.randn(n, dtype=d),
    ),
    "exponential": (
        _FLOATS,
        lambda key, n, d: lw.random.exponential(key, n, dtype=d),
        lambda rng, n, d: rng.standard_exponential(n, d),
        lambda torch, n, d: torch.empty(n, dtype=d).exponential_(),
    ),
    "integers": (
        ("uint8", "int32", "int64"),
        lambda key, n, d: lw.random.integers(key, 0, 100, n, d),
        lambda rng, n, d: rng.integers(0, 100, n, d),
        lambda torch, n, d: torch.randint(0, 100, (n,), dtype=d),
    ),
    "wide integers": (
        ("int64",),
        lambda key, n, d: lw.random.integers(key, 0, 10**15, n, d),
        lambda rng, n, d: rng.integers(0, 10**15, n, d),
        lambda torch, n, d: torch.randint(0, 10**15, (n,), dtype=d),
    ),
    "bernoulli": (
        ("bool",),
        lambda key, n, d: lw.random.bernoulli(key, 0.3, n),
        lambda rng, n, d: rng.random(n, np.float32) < np.float32(0.3),
        lambda torch, n, d: torch.empty(n, dtype=d).bernoulli_(0.3),
    ),
    "gamma": (
        ("float64",),
        lambda key, n, d: lw.random.gamma(key, 2.5, n, d),
        lambda rng, n, d: rng.standard_gamma(2.5, n, d),
        None,
    ),
    "poisson": (
        ("int64",),
        lambda key, n, d: lw.random.poisson(key, 50.0, n, d),
        lambda rng, n, d: rng.poisson(50.0, n),
        None,
    ),
    "permutation": (
        ("int64",),
        lambda key, n, d: lw.random.permutation(key, n),
        lambda rng, n, d: rng.permutation(n),
        lambda torch, n, d: torch.randperm(n),
    ),
}

_BASIC = "uniform,normal,exponential,integers,wide integers,bernoulli"


def measured(name: str, dtype: str, n: int, key: Any, torch: Any) -> dict[str, float]:
    """Returns nanoseconds per number by library, the medians of alternating calls."""
    _, ours, numpy, torch_body = OPS[name]
    compiled = lw.compile(lambda key: ours(key, n, dtype))
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: compiled(key)}
    for kind in (np.random.PCG64, np.random.SFC64, np.random.Philox):
        calls[kind.__name__] = partial(numpy, np.random.Generator(kind(1)), n, dtype)
    if torch is not None and torch_body is not None:
        calls["torch"] = lambda: torch_body(torch, n, getattr(torch, dtype))
    count = max(1, 100_000 // n)
    times: dict[str, list[float]] = {who: [] for who in calls}
    for call in calls.values():
        call()
    for _ in range(5 if n > 1_000_000 else 40):
        for who, call in calls.items():
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[who].append(time.perf_counter() - begin)
    return {who: statistics.median(each) / (n * count) * 1e9 for who, each in times.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench.random_numbers", description=__doc__)
    parser.add_argument("--ops", default=_BASIC, help=f"of {', '.join(OPS)}")
    parser.add_argument("--sizes", default="1000,100000,10000000")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    options = parser.parse_args(arguments)
    set_threads(options.threads)
    torch = None
    if options.torch:
        import torch

        torch.set_num_threads(options.threads)
    key, ratios = lw.random.key(1), []
    print(f"{'ns per number':32}{'ours':>8}{'NumPy':>8}{'torch':>8}{'x':>8}")
    with MachineLock() as lock:
        for name in options.ops.split(","):
            for dtype in OPS[name][0]:
                for n in map(int, options.sizes.split(",")):
                    lock.between()
                    times = measured(name, dtype, n, key, torch)
                    ours = times.pop("ours")
                    ratios.append(min(times.values()) / ours)
                    by_torch = times.pop("torch", float("nan"))
                    best = min(times.values())
                    case = f"{name} {dtype}[{n:,}]"
                    print(f"{case:32}{ours:8.2f}{best:8.2f}{by_torch:8.2f}{ratios[-1]:8.2f}")
    print(f"geometric mean {geomean(ratios):.2f}; {sum(r < 1 for r in ratios)} below 1")
    return int(min(ratios) < 1)


if __name__ == "__main__":
    sys.exit(main())
