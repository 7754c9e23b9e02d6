"""``make demo``: the whole way on real handwritten digits, in under a minute.

Train a perceptron and a small convolutional network (digits.py), compile their inference, check
every prediction against NumPy, tune for 20 seconds, and show what it brought. Then a second process
finds the schedules in the log: it measures nothing, does not load the search engine's XGBoost, and
makes the same machine code.

    python -m examples.demo [--budget 20s] [--log FILE]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.machine import measured_machine
from threadpoolctl import threadpool_limits

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Case:
    """A network on so many images at once; ``numpy`` computes what ``function`` has to."""

    name: str
    function: Callable[..., Any]
    numpy: Callable[..., Any]
    images: np.ndarray[Any, Any]
    share: float  # of the tuning time: the more there is to gain, the more


def cases() -> list[Case]:
    """The two networks, each for a single image and for the whole set; trains them."""
    from . import digits

    rows, pictures = digits.IMAGES.reshape(-1, 64), digits.IMAGES[..., None]
    all_of_them = len(rows)
    mlp, cnn = (digits.predict, digits.predict), (digits.predict_cnn, digits.predict_cnn_numpy)
    return [
        Case("MLP, batch 1", *mlp, rows[:1], 0.15),
        Case(f"MLP, batch {all_of_them}", *mlp, rows, 0.2),
        Case("CNN, batch 1", *cnn, pictures[:1], 0.25),
        Case(f"CNN, batch {all_of_them}", *cnn, pictures, 0.4),
    ]


def seconds_per_call(call: Callable[[], Any], seconds: float) -> float:
    """The best of the samples taken in about ``seconds``: other programs only make it slower."""
    start = time.perf_counter()
    call()
    inner = max(1, int(2e-3 / max(time.perf_counter() - start, 1e-7)))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            call()
        best = min(best, (time.perf_counter() - start) / inner)
    return best


def agreement(case: Case, function: Callable[..., Any]) -> str:
    """Compare all predictions with NumPy's; raises SystemExit if one differs."""
    got, wanted = function(case.images), case.numpy(case.images)
    same = int((got.argmax(axis=1) == wanted.argmax(axis=1)).sum())
    error = float(np.abs(got - wanted).max() / np.abs(wanted).max())
    if same != len(wanted) or not error < 1e-4:
        raise SystemExit(f"{case.name}: only {same} of {len(wanted)} predictions agree with NumPy")
    agree = f"all {same:,} predictions agree" if same > 1 else "the prediction agrees"
    return f"{agree} with NumPy (scores to {error:.0e})"


def code_of(function: Any, case: Case) -> str:
    """The hash of the machine code made for a case."""
    return function.lower(case.images).built.code_hash


def reuse(log: Path) -> None:
    """Compile from the log alone, as the second process does, and report what happened."""
    size = log.stat().st_size
    start = time.perf_counter()
    made = cases()
    trained = time.perf_counter()
    report: dict[str, Any] = {}
    for case in made:
        function = lw.compile(case.function, log=log)
        agreement(case, function)
        report[case.name] = code_of(function, case)
    print(
        json.dumps(
            {
                "code": report,
                "measured": log.stat().st_size - size,
                "xgboost": "xgboost" in sys.modules,
                "training": trained - start,
                "compiling": time.perf_counter() - trained,
            }
        )
    )


def _tune(case: Case, log: Path, seconds: float) -> Any:
    tuned = lw.compile(case.function, log=log)
    report = tuned.tune(case.images, budget=seconds)
    print(f"     {case.name}: {agreement(case, tuned)}")
    print(textwrap.indent(str(report), "      "), flush=True)
    return tuned


def _times(case: Case, seconds: float, *compiled: Callable[..., Any]) -> list[float]:
    """Seconds per call of NumPy (on all threads or on one) and of the functions given, each found
    by samples in about ``seconds``.

    Four rounds, so that a disturbance of the machine does not hit one of them alone.
    """
    functions = (case.numpy, *compiled)
    rounds = [
        [seconds_per_call(functools.partial(f, case.images), seconds / 4) for f in functions]
        for _ in range(4)
    ]
    with threadpool_limits(1):  # on a busy machine NumPy's BLAS is faster on one thread
        alone = seconds_per_call(lambda: case.numpy(case.images), seconds / 4)
        rounds[0][0] = min(rounds[0][0], alone)
    return [min(times) for times in zip(*rounds)]


def _table(rows: Sequence[tuple[str, float, float, float]]) -> str:
    lines = [("", "NumPy", "untuned", "tuned", "NumPy / tuned")]
    for name, numpy, before, after in rows:
        times = (f"{1e6 * s:,.1f} us" for s in (numpy, before, after))
        lines.append((name, *times, f"{numpy / after:.1f}x"))
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    return "\n".join(
        f"  {line[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:]))
        for line in lines
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if everything was as it should be."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tuning (20)")
    parser.add_argument("--log", type=Path, help="tuning log to use (else a new one)")
    parser.add_argument("--reuse", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    os.environ.pop("LOOPWRIGHT_LOG", None)  # a log of your own would change what is shown
    if args.reuse:
        reuse(args.reuse)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _run(args.log or Path(folder) / "digits.jsonl", args.budget)


def _run(log: Path, budget: float) -> int:
    machine = measured_machine()  # for "% of peak"; takes some seconds the first time
    print(
        f"0. This machine: {machine.cpu}, {machine.isa}, {machine.threads} cores, "
        f"peak {machine.peak_flops_n / 1e9:.0f} GFLOP/s (measured)."
    )
    start = time.perf_counter()
    made = cases()
    print(f"1. Trained an MLP and a CNN on real digits in {time.perf_counter() - start:.1f} s.")

    start = time.perf_counter()
    before = {case.name: lw.compile(case.function) for case in made}
    for case in made:
        before[case.name](case.images)
    print(f"2. Compiled their inference in {time.perf_counter() - start:.1f} s:")
    for case in made:
        print(f"     {case.name}: {agreement(case, before[case.name])}")

    print(f"3. Tuning for {budget:g} s, log {log}:", flush=True)
    after = {case.name: _tune(case, log, budget * case.share) for case in made}
    spent = min(0.6, 0.03 * budget)
    rows = [(c.name, *_times(c, spent, before[c.name], after[c.name])) for c in made]
    print("4. Time per call:")
    print(_table(rows))

    command = [sys.executable, "-m", "examples.demo", "--reuse", str(log)]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads(second.stdout)
    same = report["code"] == {case.name: code_of(after[case.name], case) for case in made}
    print(
        f"5. A second process compiled all four from the log in {report['compiling']:.1f} s:\n"
        f"     {'nothing' if not report['measured'] else 'something'} measured, "
        f"xgboost {'loaded' if report['xgboost'] else 'not loaded'}, "
        f"{'the same' if same else 'different'} machine code."
    )
    return 0 if same and not report["measured"] and not report["xgboost"] else 1


if __name__ == "__main__":
    sys.exit(main())
