"""Time NumPy's sorts, searches, scans and histograms beside NumPy and PyTorch.

    python -m bench.numpy_ops                       every operation, dtype and size, one thread
    python -m bench.numpy_ops --ops sort,argsort --dtypes float32 --sizes 1000,100000 --threads 2

Prints microseconds per call of untuned compiled functions, NumPy and PyTorch, and the time of the
faster of these two over ours: 1 or more is the bar, and the exit status is 1 if one is missed. All
get the same number of threads (NumPy's functions use one). A dash is what a library cannot do.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.runtime.pool import set_threads

from .lock import MachineLock
from .row import geomean

__all__ = ["OPS", "Op", "main", "operands"]

Arrays = tuple[Any, ...]

DTYPES = "bool,int8,uint8,int16,uint16,int32,uint32,int64,uint64,float32,float64"


@dataclass(frozen=True, slots=True)
class Op:
    """``body`` is what NumPy and we run, ``torch`` what PyTorch does, on ``make(rng, n, dtype)``;
    ``kinds`` are the kinds of dtypes it is measured with."""

    body: Callable[..., Any]
    torch: Callable[..., Any] | None
    make: Callable[[np.random.Generator, int, np.dtype[Any]], Arrays]
    kinds: str = "biuf"


def operands(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> Arrays:
    """Returns one array of ``n`` random elements, of the whole range of an integer dtype."""
    if dtype.kind == "b":
        return (rng.integers(0, 2, n).astype(bool),)
    if dtype.kind == "f":
        return (rng.standard_normal(n, dtype),)
    limits = np.iinfo(dtype)
    return (rng.integers(limits.min, limits.max, n, dtype, endpoint=True),)


def _searched(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> Arrays:
    return np.sort(operands(rng, n, dtype)[0]), operands(rng, n, dtype)[0]


def _bins(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> Arrays:
    values = operands(rng, n, dtype)[0]
    edges = np.unique(np.quantile(values[:1000].astype(np.float64), np.linspace(0, 1, 65)))
    return values, edges.astype(dtype if dtype.kind == "f" else np.float64)


def _small(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> Arrays:
    return (rng.integers(0, 100, n).astype(dtype),)


def _torch(name: str) -> Any:
    import torch

    return getattr(torch, name)


OPS: dict[str, Op] = {
    "sort": Op(lambda x: np.sort(x), lambda x: _torch("sort")(x), operands),
    "argsort": Op(lambda x: np.argsort(x), lambda x: _torch("argsort")(x), operands),
    "stable argsort": Op(
        lambda x: np.argsort(x, kind="stable"),
        lambda x: _torch("argsort")(x, stable=True),
        operands,
    ),
    "cumsum": Op(lambda x: np.cumsum(x), lambda x: _torch("cumsum")(x, 0), operands),
    "cumprod": Op(lambda x: np.cumprod(x), lambda x: _torch("cumprod")(x, 0), operands, "iuf"),
    "cummax": Op(lambda x: np.maximum.accumulate(x), lambda x: _torch("cummax")(x, 0), operands),
    "searchsorted": Op(
        lambda x, v: np.searchsorted(x, v),
        lambda x, v: _torch("searchsorted")(x, v),
        _searched,
        "iuf",
    ),
    "histogram": Op(
        lambda x: np.histogram(x, bins=100, range=(-2.0, 2.0))[0],
        lambda x: _torch("histc")(x, 100, -2.0, 2.0),
        operands,
        "f",
    ),
    "histogram of edges": Op(
        lambda x, edges: np.histogram(x, edges)[0],
        lambda x, edges: _torch("histogram")(x, edges)[0],
        _bins,
        "f",
    ),
    "bincount": Op(
        lambda x: np.bincount(x, minlength=100),
        lambda x: _torch("bincount")(x, minlength=100),
        _small,
        "iu",
    ),
    "median": Op(lambda x: np.median(x), lambda x: _torch("median")(x), operands, "f"),
    "partition": Op(
        lambda x: np.partition(x, x.size // 10),
        lambda x: _torch("kthvalue")(x, x.shape[0] // 10 + 1),
        operands,
        "iuf",
    ),
}
"""Operations by name. Not of each is there an exact counterpart in PyTorch: ``histc`` counts in
floats, ``kthvalue`` and ``median`` select one element."""


def measured(
    op: Op, dtype: np.dtype[Any], n: int, torch: Any, rounds: int, seconds: float
) -> tuple[dict[str, float], str]:
    """Returns seconds per call by library, and why ours failed."""
    arrays = op.make(np.random.default_rng(n), n, dtype)
    calls: dict[str, Callable[[], Any]] = {"numpy": lambda: op.body(*arrays)}
    failed = ""
    try:
        compiled = lw.compile(_fixed(op.body))
        compiled(*arrays)
        calls["ours"] = lambda: compiled(*arrays)
    except Exception as error:
        failed = (str(error).splitlines() or [type(error).__name__])[0]
    if torch is not None and op.torch is not None:
        tensors, body = [torch.from_numpy(a) for a in arrays], op.torch
        try:
            body(*tensors)
            calls["torch"] = lambda: body(*tensors)
        except (RuntimeError, NotImplementedError):
            pass
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(_seconds(call, seconds))
    return {name: statistics.median(each) for name, each in times.items()}, failed


def _fixed(body: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own, so that no other one's compiled code counts as its."""
    return lambda *arrays: body(*arrays)


def _seconds(call: Callable[[], Any], seconds: float) -> float:
    call()
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    count = max(1, int(seconds / max(once, 1e-7)))
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return min(once, (time.perf_counter() - begin) / count)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if a bar is missed."""
    options = _parser().parse_args(arguments)
    set_threads(options.threads)
    torch = None
    if options.torch:
        import torch

        torch.set_num_threads(options.threads)
    ratios: list[float] = []
    missed: list[str] = []
    print(f"{'':44}{'ours us':>12}{'NumPy us':>12}{'torch us':>12}{'x':>8}")
    with MachineLock() as lock:
        for name in options.ops.split(","):
            op = OPS[name]
            for dtype in map(np.dtype, options.dtypes.split(",")):
                for n in map(int, options.sizes.split(",")):
                    if dtype.kind not in op.kinds:
                        continue
                    lock.between()
                    case = f"{name} {dtype}[{n:,}]"
                    rounds, seconds = options.rounds, options.seconds
                    times, failed = measured(op, dtype, n, torch, rounds, seconds)
                    peer = min(t for who, t in times.items() if who != "ours")
                    ratio = peer / times["ours"] if "ours" in times else 0.0
                    if ratio:
                        ratios.append(ratio)
                    if ratio < 1:
                        missed.append(case)
                    print(_line(case, times, ratio, failed), flush=True)
    total = len(ratios)
    print(f"geometric mean of {total}: {geomean(ratios):.2f}; {len(missed)} below 1:")
    print("\n".join(f"  {case}" for case in missed) or "  none")
    return 1 if missed else 0


def _line(case: str, times: dict[str, float], ratio: float, failed: str) -> str:
    shown = "".join(
        f"{1e6 * times[who]:12,.1f}" if who in times else f"{'-':>12}"
        for who in ("ours", "numpy", "torch")
    )
    return f"{case:44}{shown}{ratio:8.2f}{'' if ratio >= 1 else '  missed'} {failed}".rstrip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.numpy_ops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ops", default=",".join(OPS), help="names with commas")
    parser.add_argument("--dtypes", default=DTYPES)
    parser.add_argument("--sizes", default="1000,100000,10000000", help="elements")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="rounds each library gets (3)")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of a round (0.02)")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="NumPy alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
