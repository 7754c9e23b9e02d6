"""Random ONNX models by the thousand: ``python tests/fuzz/onnx_run.py --seeds 0:2000``.

Each is computed by the standard's evaluator (node by node, as it was drawn), by compiled code, and
by ONNX Runtime if that is installed. Prints each model that crashes, is wrong, or is refused
without a clear error, cut down to the first value that is wrong; and what was refused, in numbers.
Chunks of models run in processes of their own, so that a crash is one model's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from forked_chunks import outcomes
from random_onnx import ROWS, draw_model, mistakes
from run_onnx import MISJUDGED, SUPPORTED, by_runtime, failure, is_mistake, results_of, smaller


def report(seed: int, rows: dict) -> tuple[str, str]:
    """The kind of a seed's outcome, and what to print of it.

    Where ONNX Runtime runs a model, it decides; the evaluator has mistakes of its own.
    """
    program = draw_model(seed, rows)
    text = failure(program)
    if text.startswith("refused"):
        return text, ""
    given = by_runtime(program)
    if given is None:
        if not text:
            return "right by the evaluator, ONNX Runtime refuses it", ""
        if any(node.op_type in MISJUDGED for node in program.model.graph.node):
            return "right or wrong, nobody can tell", ""
        cut = smaller(program)
        return "wrong by the evaluator", f"seed {seed}: {text}\n{cut}\n  {failure(cut)}"
    if text and not is_mistake(text):
        return "wrong", f"seed {seed}: {text}\n{program}"
    theirs = mistakes(program, given)
    if not text:
        return (
            ("right, ONNX Runtime differs", f"seed {seed}: {theirs}") if theirs else ("right", "")
        )
    text = mistakes(program.with_wanted(given), results_of(program))
    if not text:
        return "right by ONNX Runtime, the evaluator differs", ""
    cut = smaller(program, by_runtime)
    return "wrong", f"seed {seed}: {text}\n{cut}\n  {failure(cut)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000")
    parser.add_argument("--only", default="", help="operators, by commas")
    parser.add_argument("--all", action="store_true", help="also operators without a converter")
    parser.add_argument(
        "--show", action="store_true", help="print what ONNX Runtime does otherwise"
    )
    given = parser.parse_args()
    rows = ROWS if given.all else SUPPORTED
    if given.only:
        rows = {name: ROWS[name] for name in given.only.split(",")}
    low, high = map(int, given.seeds.split(":"))
    kinds: Counter[str] = Counter()
    begun = time.perf_counter()
    for seed, kind, text in outcomes(low, high, partial(report, rows=rows)):
        kinds[kind if not kind.startswith("refused") else kind[:160]] += 1
        if kind.startswith("crashed"):
            text += f"\n{draw_model(seed, rows)}"
        if text and (given.show or not kind.startswith("right")):
            print(f"{text}\n", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    took = time.perf_counter() - begun
    print(f"{sum(kinds.values())} models of {len(rows)} operators, {took:.0f} s")
    return int(any(k.startswith(("wrong", "crashed", "generator")) for k in kinds))


if __name__ == "__main__":
    sys.exit(main())
