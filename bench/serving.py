"""Cost of background tuning for a program that serves requests: ``python -m bench.serving``.

::

    before     the function as its rules and logs make it, called over and over
    during     the same while tuning runs beside it, second by second
    after      the final code, interleaved with what tuning beforehand finds in as much time

Latencies are those of single calls, seen by the program. Every result is compared with that of the
first build; where they are not the same numbers, with the function in float64. A program that uses
all cores itself leaves none to tune on: ``--threads`` below the number of cores is the usual case.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["main"]

Array = np.ndarray[Any, Any]
_TOLERANCE = 1e-4
"""Relative to the largest element: two sums in float32 of some thousand terms in other orders."""


@dataclass(frozen=True, slots=True)
class Second:
    """The calls of about one second: their number, and percentiles of their seconds."""

    calls: int
    median: float
    p90: float
    p99: float

    @staticmethod
    def of(latencies: Sequence[float]) -> Second:
        p50, p90, p99 = np.percentile(latencies, (50, 90, 99))
        return Second(len(latencies), float(p50), float(p90), float(p99))


def network(seed: int = 0) -> tuple[Callable[..., Any], tuple[Array, ...]]:
    """A convolutional network of sizes nobody chose for their looks, and an image for it."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    k1, k2, k3 = weights(24, 3, 3, 3), weights(40, 24, 3, 3), weights(72, 40, 1, 1)
    dense, bias = weights(72, 57), weights(57)

    def classify(image):
        x = lw.nn.relu(lw.nn.conv2d(image, k1, strides=2, padding=1))
        x = lw.nn.relu(lw.nn.conv2d(x, k2, padding=1))
        x = lw.nn.max_pool2d(lw.nn.relu(lw.nn.conv2d(x, k3)), pool_size=2)
        return lw.nn.softmax(x.mean(axis=(2, 3)) @ dense + bias)

    return classify, (rng.standard_normal((1, 3, 61, 61)).astype(np.float32),)


def serve(
    function: Callable[..., Any],
    args: tuple[Array, ...],
    seconds: float,
    check: Callable[[Array], None],
    pause: float,
) -> list[Second]:
    """Call for some seconds; a summary of each."""
    found: list[Second] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        latencies: list[float] = []
        until = time.perf_counter() + 1.0
        while time.perf_counter() < until:
            begun = time.perf_counter()
            result = function(*args)
            latencies.append(time.perf_counter() - begun)
            check(result)
            if pause:
                time.sleep(pause)
        found.append(Second.of(latencies))
    return found


class Checker:
    """Compares every result with the first; counts those that are other numbers, and wrong ones."""

    def __init__(self) -> None:
        self.expected: Array | None = None
        self.results = self.others = self.wrong = 0
        self.largest = 0.0

    def __call__(self, result: Array) -> None:
        if self.expected is None:
            self.expected = result.copy()
        self.results += 1
        if not np.array_equal(result, self.expected):
            self.others += 1
            scale = float(np.max(np.abs(self.expected)))
            error = float(np.max(np.abs(result - self.expected))) / scale
            self.largest = max(self.largest, error)
            self.wrong += not error <= _TOLERANCE


def side_by_side(
    first: Callable[..., Any], second: Callable[..., Any], args: tuple[Array, ...], rounds: int
) -> tuple[float, float]:
    """Median seconds of both, called alternately."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in range(2 * rounds):
        which = (0, 1, 1, 0)[call % 4]
        begun = time.perf_counter()
        (first, second)[which](*args)
        times[which].append(time.perf_counter() - begun)
    return float(np.median(times[0])), float(np.median(times[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=60.0, help="of background tuning (60)")
    parser.add_argument("--share", type=float, default=0.25, help="of the processors (0.25)")
    parser.add_argument(
        "--priority", choices=("idle", "normal"), default="idle", help="of the tuning (idle)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of the served function (1)")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two calls (0)")
    options = parser.parse_args(arguments)
    plain, args = network()
    with tempfile.TemporaryDirectory() as folder:
        return _compare(plain, args, Path(folder), options)


def _compare(
    plain: Callable[..., Any], args: tuple[Array, ...], folder: Path, options: argparse.Namespace
) -> int:
    check = Checker()
    untuned = lw.compile(plain, threads=options.threads)
    untuned(*args)
    before = serve(untuned, args, 10.0, check, options.pause)
    background = lw.Background(options.share, options.seconds, options.priority)
    log = folder / "background.jsonl"
    served = lw.compile(plain, threads=options.threads, log=log, tune=background)
    served(*args)
    during: list[Second] = []
    while not served.background.wait(0):
        during += serve(served, args, 1.0, check, options.pause)
    offline = lw.compile(plain, threads=options.threads)
    offline.tune(*args, budget=options.seconds, log=folder / "offline.jsonl")
    ours, theirs = side_by_side(served, offline, args, 400)
    return _tell(before, during, served.background.lines, check, ours, theirs)


def _tell(
    before: list[Second],
    during: list[Second],
    events: list[str],
    check: Checker,
    ours: float,
    theirs: float,
) -> int:
    usual = Second(
        sum(s.calls for s in before),
        *(float(np.median([getattr(s, name) for s in before])) for name in _PERCENTILES),
    )
    print(f"{'second':>8} {'calls':>7} {'median':>9} {'p90':>9} {'p99':>9}  us")
    print(_line("before", usual))
    for number, second in enumerate(during):
        print(_line(str(number), second))
    for event in events:
        print(f"  {event}")
    for name in _PERCENTILES:
        rises = [getattr(s, name) / getattr(usual, name) - 1 for s in during]
        print(
            f"{name} while tuning: {100 * float(np.median(rises)):+.1f} % in the middle second, "
            f"{100 * max(rises):+.1f} % in the worst of {len(during)}"
        )
    print(
        f"results: {check.results}, other numbers in {check.others}, off by {check.largest:.2g} "
        f"of the largest element at most, wrong {check.wrong}"
    )
    print(
        f"after: {ours * 1e6:.1f} us, tuned beforehand {theirs * 1e6:.1f} us: {ours / theirs:.3f}"
    )
    return 0 if check.wrong == 0 else 1


_PERCENTILES = ("median", "p90", "p99")


def _line(name: str, second: Second) -> str:
    times = " ".join(f"{getattr(second, p) * 1e6:9.1f}" for p in _PERCENTILES)
    return f"{name:>8} {second.calls:>7} {times}"


if __name__ == "__main__":
    raise SystemExit(main())
