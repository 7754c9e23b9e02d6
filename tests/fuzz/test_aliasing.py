"""Random programs of views, aliases and writes agree with NumPy, in results and in arguments.

``python tests/fuzz/test_aliasing.py --seeds 0:5000`` runs many; ``--interpret`` has NumPy compute
what was traced, which is quicker and tests the tracer and the write-back alone. ``--calls`` runs a
few programs instead, each on arguments that lie in memory in every way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import loopwright as lw
import numpy as np
from loopwright.driver.built import Built
from loopwright.face.compiled_function import CompiledFunction
from loopwright.ir.graph.evaluate import evaluate
from random_aliasing import draw_aliasing, failure, smaller
from random_draw import RandomDraw
from random_placements import DTYPES, PROGRAMS, SHAPES, call_failure, function_of

MOST_REFUSED = 0.1


class Interpreted(CompiledFunction):
    """A compiled function whose traced graph NumPy runs."""

    def _build(self, traced: Any, *_: Any) -> Any:
        def call(arrays: Sequence[Any]) -> list[Any]:
            result = evaluate(traced.module, *arrays)
            results = result if isinstance(result, tuple) else (result,)
            return [np.array(r, order="C") for r in results]  # not an operand, nor a view of it

        return Built(call)


def run(low: int, high: int, compiler: Any, most: int = 10) -> list[str]:
    """What went wrong for these seeds."""
    found: list[str] = []
    refused = 0
    for seed in range(low, high):
        program = draw_aliasing(RandomDraw(seed), most)
        try:
            problem = failure(program, compiler)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem == "refused":
            refused += 1
        elif problem:
            cut = smaller(program, compiler)
            found.append(f"seed {seed}: {problem}\n{cut}\n  {failure(cut, compiler)}")
    if refused > MOST_REFUSED * (high - low):
        found.append(f"{refused} of {high - low} were refused")
    return found


def run_calls(
    low: int, high: int, threads: tuple[int, ...] = (1, 2, 4), calls: int = 8
) -> list[str]:
    """What went wrong for programs that are called with arguments in every place."""
    found: list[str] = []
    for seed in range(low, high):
        draw = RandomDraw(seed)
        text, shape, dtype = draw.pick(PROGRAMS), draw.pick(SHAPES), draw.pick(DTYPES)
        text = text.replace("0.5", "2") if dtype[0] == "i" else text
        count = draw.pick(threads)
        function = function_of(text)
        compiled = lw.compile(function, threads=count)
        for call in range(calls):
            problem = call_failure(compiled, function, 100 * seed + call, shape, dtype)
            if problem:
                where = f"seed {seed}, call {call}: {text}   {dtype}{list(shape)}, {count} threads"
                found.append(f"{where}\n  {problem}")
    return found


def test_calls_in_every_place() -> None:
    assert not run_calls(0, 40)


def test_interpreted() -> None:
    assert not run(0, 400, Interpreted)


def test_compiled() -> None:
    assert not run(1000, 1040, lambda f: lw.compile(f, threads=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000")
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    how = Interpreted if options.interpret else (lambda f: lw.compile(f, threads=1))
    wrong = run_calls(first, last) if options.calls else run(first, last, how, options.most)
    print("\n\n".join(wrong))
    print(f"{last - first} programs, {len(wrong)} wrong")
