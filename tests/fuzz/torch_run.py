"""Random modules of PyTorch: ``python tests/fuzz/torch_run.py --seeds 0:500``.

Each is exported, compiled and compared with eager PyTorch in float64. Prints each that crashes or
is wrong, cut down to its first wrong value, and in numbers what was refused.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import loopwright as lw
from random_torch import RandomModule, draw_module, mistakes


def failure(module: RandomModule, inputs: list, single: list, double: list) -> str:
    """What is wrong with a module: "refused: ..." if there is a clear error, or nothing."""
    try:
        results = lw.from_torch(module, tuple(inputs), threads=1)(*inputs)
    except lw.LoopwrightError as error:
        return f"refused: {error.message} {' '.join(error.notes)}".replace("\n", " ")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return mistakes(results, single, double)


def smaller(module: RandomModule, inputs: list) -> tuple[RandomModule, str]:
    """The steps up to the first value that is wrong, and what is."""
    low, high = list(inputs), [x.double() for x in inputs]
    for n, (_, function, places) in enumerate(module.steps):
        low.append(function(*(low[p] for p in places)))
        high.append(function(*(high[p] for p in places)))
        cut = RandomModule(module.count)
        cut.steps, cut.kept = module.steps[: n + 1], [module.count + n]
        text = failure(cut, inputs, low[-1:], high[-1:])
        if text:
            return cut, text
    return module, "only as a whole"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:500")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    low, high = map(int, given.seeds.split(":"))
    kinds: Counter[str] = Counter()
    begun = time.perf_counter()
    for seed in range(low, high):
        program = draw_module(seed)
        text = failure(*program)
        kinds[text[:120] if text.startswith("refused") else "wrong" if text else "right"] += 1
        if text and not text.startswith("refused"):
            cut, why = smaller(program[0], program[1])
            shapes = ", ".join(str(list(x.shape)) for x in program[1])
            print(f"seed {seed}: {text}\n{cut}\n  of {shapes}: {why}\n", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{high - low} modules, {time.perf_counter() - begun:.0f} s")
    return int("wrong" in kinds)


if __name__ == "__main__":
    sys.exit(main())
