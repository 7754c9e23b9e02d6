"""Random programs of rows, whose bits must not depend on what is beside a row, on threads, on the
machine or on schedules."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import compiled
import loopwright as lw
import numpy as np
from loopwright.autotune.selection.select import Chosen, Origin
from loopwright.autotune.space.space import is_legal
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
from loopwright.debug.machine.kernels import run_text
from loopwright.driver.pipeline import build, kernels_of, lower_module, preferences_of, target_of
from loopwright.ir.errors import InternalError
from page_borders import HOST, LEVELS, sampled

__all__ = ["Way", "draw", "trial", "trial_of_text", "ways"]

Array = np.ndarray[Any, Any]
MODE = "reproducible"
LONGEST = 64  # rows, from which the first ones are taken
SIZES = 1, 3, 8, 15, 16, 17, 33, 64, 100, 300, 700


class Program(NamedTuple):
    """A function of rows and of arrays that they share, in words, and the shape of a row."""

    run: Callable[..., Any]
    shared: list[Array]
    row: tuple[int, ...]
    text: str


def _unary(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    return rng.choice(
        [
            ("exp", lambda x: np.exp(-np.abs(x))),
            ("tanh", np.tanh),
            ("log1p", lambda x: np.log1p(np.abs(x))),
            ("log", lambda x: np.log(np.abs(x) + 0.1)),
            ("log2", lambda x: np.log2(np.abs(x) + 0.1)),
            ("sin", lambda x: np.sin(9 * x)),
            ("tan", lambda x: np.tan(np.tanh(x))),
            ("arctan", np.arctan),
            ("arcsin", lambda x: np.arcsin(np.tanh(x))),
            ("sinh", lambda x: np.sinh(np.tanh(x))),
            ("arctanh", lambda x: np.arctanh(0.9 * np.tanh(x))),
            ("cbrt", np.cbrt),
            ("power", lambda x: np.power(np.abs(x) + 0.1, 1.7)),
            ("expm1", lambda x: np.expm1(np.tanh(x))),
            ("fmod", lambda x: np.fmod(7 * x, 0.3)),
            ("gelu", lw.nn.gelu),
            ("silu", lw.nn.silu),
            ("erf", lw.nn.erf),
            ("sigmoid", lw.nn.sigmoid),
            ("logaddexp", lambda x: np.logaddexp(x, 0.3)),
            ("relu", lambda x: np.maximum(x, 0)),
            ("quotient", lambda x: x / (1 + x * x)),
            ("root", lambda x: 1 / np.sqrt(np.abs(x) + 1)),
            ("polynomial", lambda x: (0.3 * x + 1.1) * x - 0.7),
        ]
    )


def _along(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """What mixes the elements of the last axis, or of the one before it."""
    axis = rng.choice([-1, -1, -2])
    name, run = rng.choice(
        [
            ("softmax", lambda x, a: lw.nn.softmax(x, axis=a)),
            ("log_softmax", lambda x, a: lw.nn.log_softmax(x, axis=a)),
            ("centred", lambda x, a: x - x.mean(axis=a, keepdims=True)),
            ("norm", lambda x, a: x / (1 + np.sqrt((x * x).sum(axis=a, keepdims=True)))),
            ("var", lambda x, a: x / (1 + x.var(axis=a, keepdims=True))),
            ("max", lambda x, a: x - x.max(axis=a, keepdims=True)),
            ("cumsum", lambda x, a: 0.1 * np.cumsum(x, axis=a)),
            ("prod", lambda x, a: x * np.tanh(np.prod(0.9 + 0.1 * np.tanh(x), a, keepdims=True))),
            ("logsumexp", lambda x, a: x - np.log(np.exp(np.tanh(x)).sum(axis=a, keepdims=True))),
        ]
    )
    return f"{name}({axis})", lambda x: run(x, axis if x.ndim + axis > 0 else -1)


def draw(seed: int) -> Program:
    """A random program of a few steps on rows of one to three axes."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    kind = rng.choice(["vector", "vector", "sequence", "image"])
    size = rng.choice(SIZES)
    row: tuple[int, ...] = (size,)
    if kind == "sequence":
        row = rng.choice([2, 5, 16, 24]), min(size, 64)
    elif kind == "image":
        row = rng.choice([1, 3, 8]), rng.choice([6, 9]), rng.choice([6, 17])
    shared: list[Array] = []
    steps: list[tuple[str, Callable[..., Any], int | None]] = []
    shape = row

    def given(*sizes: int) -> int:
        shared.append((numbers.standard_normal(sizes) / np.sqrt(sizes[0])).astype(np.float32))
        return len(shared) - 1

    def add(text: str, run: Callable[..., Any], *sizes: int) -> None:
        steps.append((text, run, given(*sizes) if sizes else None))

    for _ in range(rng.randint(2, 6)):
        which = rng.choice(("unary", *["along"] * 2, *["dense"] * 3, "mixed", "own"))
        if which == "unary":
            add(*_unary(rng))
        elif which == "along":
            add(*_along(rng))
        elif which == "dense" and kind != "image":
            wide = rng.choice(SIZES[:9])
            if rng.random() < 0.3:
                add(f"@ [{wide}, n].T", lambda x, w: x @ w.T, wide, shape[-1])
            else:
                add(f"@ [n, {wide}]", lambda x, w: x @ w, shape[-1], wide)
            shape = (*shape[:-1], wide)
        elif which == "dense":
            wide = rng.choice([1, 4, 8, 16])
            add("conv", lambda x, w: lw.nn.conv2d(x, w, padding=1), wide, shape[0], 3, 3)
            shape = (wide, *shape[1:])
        elif which == "mixed" and kind == "sequence":
            if rng.random() < 0.5:
                add("attention", _attention)
            else:
                add("mixed rows", lambda x, w: w @ x, shape[0], shape[0])
        elif which == "mixed" and kind == "image":
            add("pool", lambda x: x + lw.nn.avg_pool2d(x, 3, strides=1, padding=1))
        elif which == "mixed":
            wide = rng.choice([4, 20])
            add(f"outer {wide}", lambda x, w: (x[:, None] * w).sum(-1) * w[:, 0], wide, shape[-1])
            shape = (wide,)
        elif rng.random() < 0.5:
            add("* row", lambda x, w: x * w + w, shape[-1])
        else:
            add("dot", lambda x, w: x * np.tanh((x * w).sum(axis=-1, keepdims=True)), shape[-1])
    if rng.random() < 0.3:
        add("total", lambda x: x.reshape(len(x), -1).sum(axis=1))

    def run(x: Any, *arrays: Any) -> Any:
        for _, step, number in steps:
            x = step(x) if number is None else step(x, arrays[number])
        return x

    return Program(run, shared, row, f"{list(row)}: " + "; ".join(text for text, *_ in steps))


def _attention(x: Any) -> Any:
    scores = lw.nn.softmax(x @ np.swapaxes(x, -1, -2) * 0.3, axis=-1)
    return scores @ x


class Way(NamedTuple):
    """How a program is run; schedule 0 is the default one, others are random."""

    batch: int
    isa: str
    threads: int
    schedule: int


def ways(seed: int) -> Iterator[Way]:
    """Every batch by every level, each with one of the threads and schedules by turns."""
    for n, (batch, isa) in enumerate(product((1, 2, 7, LONGEST), LEVELS)):
        yield Way(batch, isa, (1, 2, 4)[(n + seed) % 3], (n // 2 + seed) % 3)


def run(program: Program, rows: Array, way: Way) -> Array:
    """The program's results for the first rows, one way."""
    x = rows[: way.batch]
    arrays = [x, *program.shared]
    module = lw.compile(program.run).trace(*arrays).module
    target = target_of(HOST.with_isa(way.isa), MODE)
    chosen: dict[str, Chosen] = {}
    if way.schedule:
        prims = kernels_of(lower_module(module, preferences_of(MODE, target)))
        for prim in prims.values():
            schedule = sampled(target, way.schedule, prim)
            if is_legal(prim, schedule, target):
                chosen[workload_of(prim).hash] = Chosen(schedule, Origin.GIVEN, "drawn")
    made = build(
        module, target=target, threads=way.threads, precision=MODE, schedules=chosen, taken={}
    )
    return np.asarray(made.call(arrays)[0])


def interpreted(program: Program, rows: Array, target: Target) -> Array:
    """The results of the LLVM text for a machine that need not be here."""
    arrays = [rows, *program.shared]
    target = target_of(target, MODE)
    module = lower_module(
        lw.compile(program.run).trace(*arrays).module, preferences_of(MODE, target)
    )
    return np.asarray(
        compiled.run_module(module, arrays, target, lambda k, _target, inputs: run_text(k, inputs))
    )


def trial(seed: int, chosen: Sequence[Way] | None = None) -> list[str]:
    """Returns the ways in which a program gave other bits than by the default on one thread."""
    warnings.simplefilter("ignore")
    program = draw(seed)
    rows = np.random.default_rng(seed).standard_normal((LONGEST, *program.row)).astype(np.float32)
    first = run(program, rows, Way(LONGEST, HOST.isa, 1, 0))
    with np.errstate(all="ignore"):
        assert first.dtype == np.float32, first.dtype
    bad: list[str] = []
    for way in ways(seed) if chosen is None else chosen:
        try:
            found = run(program, rows, way)
        except InternalError as error:
            bad.append(f"seed {seed} {tuple(way)}: {error}: {program.text}")
            continue
        wrong = found.view(np.int32) != first[: way.batch].view(np.int32)
        wrong &= ~(np.isnan(found) & np.isnan(first[: way.batch]))
        if wrong.any():
            bad.append(f"seed {seed} {tuple(way)}: {wrong.sum()} of {wrong.size}: {program.text}")
    return bad


def trial_of_text(seed: int) -> list[str]:
    """Returns where a row has other bits by the text for AVX-512 than by this machine's code."""
    warnings.simplefilter("ignore")
    program = draw(seed)
    rows = np.random.default_rng(seed).standard_normal((1, *program.row)).astype(np.float32)
    here = run(program, rows, Way(1, HOST.isa, 1, 0))
    there = interpreted(program, rows, Target("x86-64-v4"))
    wrong = (here.view(np.int32) != there.view(np.int32)) & ~(np.isnan(here) & np.isnan(there))
    return [f"seed {seed}: {wrong.sum()} of {wrong.size}: {program.text}"] if wrong.any() else []
