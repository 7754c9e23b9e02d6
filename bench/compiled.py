"""The machine code of the bench's programs, and how long compiling them takes.

    python -m bench.compiled --out before.json            all programs, on every ISA of this machine
    python -m bench.compiled --against before.json        and which code differs from that file's
    python -m bench.compiled --isa host gram softmax      some of them, on one ISA
    python -m bench.compiled --chain 500                  a function of 500 operators as well

A change that means to keep the code writes the file before and compares after: the exit status is
1 if a hash differs. Every program is compiled without logs, in one process, once the process has
compiled another one; seconds are processor time of the whole compile, machine code included.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.objects import code_hash, object_code
from loopwright.codegen.target import ISA_LEVELS, Target

from .families import fixed_workloads
from .idiomatic import PROGRAMS
from .lock import MachineLock
from .namespaces.of_loopwright import Loopwright
from .workload import Workload

__all__ = ["Compiled", "compiled", "main"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """``kernels`` are hashes of object code by kernel name, ``entry`` is that of the program that
    calls them, ``schedules`` are their schedules as text; ``seconds`` are processor time."""

    kernels: Mapping[str, str]
    schedules: Mapping[str, str]
    entry: str
    seconds: float


def compiled(function: Callable[..., Any], arrays: Sequence[Any], target: Target) -> Compiled:
    """Compile ``function`` for ``arrays`` and this target, with one thread and no log."""
    begun = time.process_time()
    lowered = lw.compile(function, threads=1, target=target).lower(*arrays)
    seconds = time.process_time() - begun
    parts = lowered.built.parts
    assert parts is not None
    # The entry names its kernels by number, and in files of before by the hash of their text.
    entry = lowered.as_text("llvm").rpartition("\n; ")[2]
    return Compiled(
        {n: code_hash(object_code(k.code, target)) for n, k in parts.kernels.items()},
        {n: str(c.schedule) for n, c in lowered.built.chosen.items()},
        code_hash(re.sub(r"lw\.(?:[0-9a-f]{32}|kernel\d+)", "lw", entry.partition("define")[2])),
        seconds,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if code differs from that of ``--against``."""
    args = _parser().parse_args(argv)
    wanted = [*PROGRAMS.values(), *fixed_workloads()]
    if args.names:
        wanted = [w for w in wanted if any(part in w.name for part in args.names)]
    programs = {w.name: _program(w) for w in wanted}
    if args.chain:
        programs[f"chain_of_{args.chain}"] = _chain(args.chain)
    host = Target.host()
    levels = list(ISA_LEVELS)[: list(ISA_LEVELS).index(host.isa) + 1]
    isas = [host.isa] if args.isa == "host" else args.isa.split(",") if args.isa else levels
    warm = lw.compile(lambda x: np.exp(x).sum(), threads=1)
    warm.lower(np.ones((64, 64), np.float32))
    results: dict[str, Compiled] = {}
    with MachineLock() as lock:
        for name, (function, arrays) in programs.items():
            for isa in isas:
                results[f"{name} {isa}"] = compiled(function, arrays, host.with_isa(isa))
            lock.between()
    if args.out:
        args.out.write_text(json.dumps({n: asdict(c) for n, c in results.items()}, indent=1) + "\n")
    total = sum(c.seconds for c in results.values())
    print(f"{len(results)} programs compiled in {total:.1f} s")
    return _compare(results, json.loads(args.against.read_text())) if args.against else 0


def _compare(results: Mapping[str, Compiled], before: Mapping[str, Any]) -> int:
    """Print what differs from an earlier run; 1 if any code does."""
    both = [name for name in results if name in before]
    other: list[str] = []
    for name in both:
        new, old = asdict(results[name]), before[name]
        kinds = [k for k in ("schedules", "kernels", "entry") if new[k] != old[k]]
        if kinds:
            other.append(name)
            print(f"{name}: other {', '.join(kinds)}")
    ratios = [before[n]["seconds"] / results[n].seconds for n in both]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{mean:.2f}x as fast to compile (geometric mean of {len(both)})")
    print(f"{len(both) - len(other)} of {len(both)} have the same code")
    return 1 if other else 0


def _program(workload: Workload) -> tuple[Callable[..., Any], list[Any]]:
    arrays, known = workload.arrays(), workload.constants
    given = [n for n in arrays if n not in known]
    F = Loopwright()

    def function(*args: Any) -> Any:
        values = {n: arrays[n] for n in known} | dict(zip(given, args, strict=True))
        return workload.body(F, *(values[n] for n in workload.inputs))

    return function, [arrays[n] for n in given]


def _chain(operators: int) -> tuple[Callable[..., Any], list[Any]]:
    """A network of that many operators: products, normalised rows, activations, residual sums.

    Its layers have ten operators each and ten different widths, so that not all kernels are equal.
    """
    rng = np.random.default_rng(1)
    widths = [64 + 16 * (n % 10) for n in range(max(1, operators // 10))]
    weights = [
        (
            (rng.standard_normal((96, w)) / 10).astype(np.float32),
            (rng.standard_normal((w, 96)) / 10).astype(np.float32),
        )
        for w in widths
    ]

    def function(x: Any) -> Any:
        for w1, w2 in weights:
            centred = x - x.mean(axis=-1, keepdims=True)
            scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
            x = x + np.tanh((centred / scale) @ w1) @ w2
        return x

    return function, [rng.standard_normal((32, 96), dtype=np.float32)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compiled",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="parts of names of programs; all if none is given")
    parser.add_argument("--isa", help="host, or names of ISA levels with commas between; else all")
    parser.add_argument("--chain", type=int, default=0, help="a function of so many operators, too")
    parser.add_argument("--out", type=Path, help="write hashes and times to this file")
    parser.add_argument("--against", type=Path, help="compare with a file of --out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
