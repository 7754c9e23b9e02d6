"""The task scheduler beside round robin: three programs of several kernels, for equal budgets.

    python -m bench.scheduling --budget 10s --threads 1

Each program is tuned twice from an empty log, once with turns by expected gain and once with a turn
for everyone. What the two logs give is then built, and run in turn: ``gain`` is how many times
faster the program is that was tuned by expected gain.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.kernels import TOOLCHAIN, tasks_of
from loopwright.autotune.log import TuningLog
from loopwright.autotune.native_tuning import tune_tasks
from loopwright.autotune.record import robust_seconds
from loopwright.autotune.scheduler import RoundRobin, TaskScheduler
from loopwright.codegen.target import Target
from loopwright.in_turn import whole_calls
from loopwright.pipeline import build, called_kernels

__all__ = ["PROGRAMS", "compare"]

Array = np.ndarray[Any, Any]
Program = tuple[Callable[..., Any], tuple[Array, ...]]
SCHEDULERS = {"expected gain": TaskScheduler, "round robin": RoundRobin}


def _random(*shape: int) -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return values / np.float32(np.sqrt(shape[-1]))


def _mlp() -> Program:
    first, *hidden = (_random(a, 512) for a in (784, 512, 512))
    last = _random(512, 10)

    def mlp(x: Array) -> Array:
        for w in (first, *hidden):
            x = np.maximum(x @ w + 1, 0)
        return lw.nn.softmax(x @ last)

    return mlp, (_random(64, 784),)


def _residual() -> Program:
    stem, *convs = (_random(32, c, 3, 3) for c in (3, 32, 32, 32, 32))
    down = _random(64, 32, 1, 1)

    def residual(x: Array) -> Array:
        x = np.maximum(lw.nn.conv2d(x, stem, padding=1, strides=2), 0)
        for a, b in (convs[:2], convs[2:]):
            y = np.maximum(lw.nn.conv2d(x, a, padding=1), 0)
            x = np.maximum(lw.nn.conv2d(y, b, padding=1) + x, 0)
        return np.asarray(lw.nn.conv2d(x, down, strides=2).mean(axis=(2, 3)))

    return residual, (_random(1, 3, 96, 96),)


def _transformer() -> Program:
    wq, wk, wv, wo = (_random(256, 256) for _ in range(4))
    up, back = _random(256, 1024), _random(1024, 256)

    def transformer(x: Array) -> Array:
        h = lw.nn.layer_norm(x)
        q, k, v = (np.swapaxes((h @ w).reshape(128, 4, 64), 0, 1) for w in (wq, wk, wv))
        scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.125)
        heads = np.swapaxes(lw.nn.softmax(scores) @ v, 0, 1).reshape(128, 256)
        x = x + heads @ wo
        return x + lw.nn.gelu(lw.nn.layer_norm(x) @ up) @ back

    return transformer, (_random(128, 256),)


PROGRAMS = {"mlp": _mlp, "residual": _residual, "transformer": _transformer}


def compare(name: str, budget: str, threads: int, seed: int = 0) -> Iterator[str]:
    """Tune a program both ways; lines of a table as they are known."""
    function, arrays = PROGRAMS[name]()
    module = lw.compile(function).trace(*arrays).module
    target = Target.host()
    untuned = build(module, threads=threads)
    assert untuned.source is not None
    tasks = tasks_of(called_kernels(untuned.source.lowered), target, threads)
    builds = [untuned]
    with tempfile.TemporaryDirectory() as folder:
        for label, scheduler in SCHEDULERS.items():
            log = Path(folder) / f"{label}.jsonl"
            result = tune_tasks(
                tasks, TOOLCHAIN, TuningLog(log), budget, seed=seed, scheduler=scheduler
            )
            turns = " ".join(str(t.trials) for t in result.tasks)
            yield f"{name:<12} {label:<14} {result.trials} candidates ({turns})"
            builds.append(build(module, log=log, threads=threads))
        took = [robust_seconds(t) for t in whole_calls(builds, arrays, 1.0)]
    first, gain, turn = (f"{t * 1e6:.1f}" for t in took)
    yield (
        f"{name:<12} untuned {first} us, expected gain {gain} us, round robin {turn} us   "
        f"gain {took[2] / took[1]:.3f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.scheduling", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)} (all)")
    parser.add_argument("--budget", default="10s", help="of each of the two (10s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.programs or PROGRAMS:
        for line in compare(name, args.budget, args.threads, args.seed):
            print(line, flush=True)


if __name__ == "__main__":
    main()
