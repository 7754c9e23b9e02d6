"""Compiles beside hostile logs: programs, and lines for their kernels that are damaged."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from hostile_lines import mutated, mutated_steps
from loopwright.autotune.record import Check, MeasureRecord, target_key
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
from loopwright.driver import kernels
from loopwright.driver.pipeline import called_kernels, lower_module

__all__ = ["PROGRAMS", "arrays_of", "damaged", "records_of", "run"]


def dense(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def transposed(x: Any) -> Any:
    return x.T * 2 + 1


def normalized(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, 1, 2) / 4) @ v


def running_sums(x: Any) -> Any:
    return np.cumsum(x * 2, axis=1)


def in_order(x: Any) -> Any:
    return np.sort(x, axis=1)[:, ::2] + 1


def rows_by_rank(x: Any, y: Any) -> Any:
    return y[np.argsort(x[:, 0])] - x


def tall_sums(x: Any) -> Any:
    return (x * x).sum(axis=0) + x.max(axis=0)


def moduli(x: Any, y: Any) -> Any:
    z = x + 1j * y
    return np.abs(z * z + 1)


PROGRAMS: tuple[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]], ...] = (
    (dense, ((37, 65), (65, 50), (50,))),
    (softmax, ((33, 70),)),
    (transposed, ((48, 70),)),
    (normalized, ((19, 96),)),
    (attention, ((2, 24, 16), (2, 40, 16), (2, 40, 24))),
    (running_sums, ((21, 130),)),
    (in_order, ((9, 66),)),
    (rows_by_rank, ((40, 33), (40, 33))),
    (tall_sums, ((130, 37),)),
    (moduli, ((25, 41), (25, 41))),
)


def arrays_of(shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def records_of(function: Callable[..., Any], arrays: list[Any], count: int = 6) -> list[Any]:
    """Lines that tuning would write for the kernels of a function, as JSON data."""
    target = Target.host()
    found: list[Any] = []
    for prim in called_kernels(lower_module(lw.compile(function).trace(*arrays).module)):
        space = ScheduleSpace(prim, target, 1)
        rows = np.concatenate([space.default(), space.sample(count, np.random.default_rng(1))])
        for row in rows:
            record = MeasureRecord(
                workload_of(prim),
                target_key(target, 1),
                tuple(space.schedule(row).to_json()),
                space.sketch_name(row),
                (1e-5,),
                checked=Check(0.0, 1e-5),
                time="2026-11-20T10:00:00Z",
                version="0.1.0",
            )
            found.append(json.loads(record.to_json()))
    return found


def damaged(
    rng: random.Random, valid: list[Any], names: tuple[str, ...] = ("i", "j", "k")
) -> bytes:
    """A line with damage at a random place, every second time in its steps alone."""
    if rng.random() < 0.5:
        return mutated(rng, valid)
    data = dict(rng.choice(valid))
    data["schedule"] = mutated_steps(rng, data["schedule"], ["i", "j", "k", "out", "t0", "x0"])
    return json.dumps(data).encode()


def run(
    function: Callable[..., Any], arrays: list[Any], lines: list[bytes], log: Path
) -> tuple[str, float]:
    """What is wrong with a compile beside a log of these lines, or nothing; and its seconds."""
    log.write_bytes(b"\n".join(lines) + b"\n")
    os.environ["LOOPWRIGHT_LOG"] = str(log)
    try:
        kernels._kernels.clear()  # else the second compile of a program makes no code
        compiled = lw.compile(function, threads=1)
        begun = time.perf_counter()
        made = compiled.lower(*arrays)
        seconds = time.perf_counter() - begun
        found = made.compile()(*arrays)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300], 0.0
    finally:
        del os.environ["LOOPWRIGHT_LOG"]
    expected = function(*[a.astype(np.float64) for a in arrays])
    if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
        return f"wrong by {np.max(np.abs(found - expected)):.3g}", seconds
    return "", seconds
