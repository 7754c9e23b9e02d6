"""Trials saved by a model that was trained on other kernels.

    python -m bench.collect --out unseen.jsonl --seed 1000 --tasks 40 --each 200
    python -m bench.warm_start unseen.jsonl

The schedules of each kernel of the log were measured; a search draws from them until it has one
within 5 % of the fastest. Nothing is measured again, so a search costs no machine time and every
search knows the same. Two searches take ``--batch`` schedules at a time, those their model likes
best, and one of chance: the cold model starts untrained, with a batch of chance; the warm one is
the model that ships, and goes on from there. Neither knows the rules' default schedules unless
``--defaults`` is given: then these are taken first. The trials counted are means over ``--seeds``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.model.cost_model import XGBoostModel
from loopwright.autotune.model.shipped import shipped_model
from loopwright.autotune.protocols import FloatArray

from tools.samples import Samples, samples_of

from .transfer import unseen

__all__ = ["main", "trials_until"]

WITHIN = 1.05
LEAST = 60
"""Schedules a kernel must have: among fewer, chance is as good as any search."""
BAR = 0.5


def trials_until(
    features: FloatArray,
    costs: FloatArray,
    model: XGBoostModel,
    rng: np.random.Generator,
    batch: int,
    first: Sequence[int] = (),
) -> int:
    """Schedules looked at until one is within 5 % of the fastest; ``first`` are looked at before
    all others."""
    target = WITHIN * costs.min()
    left = [int(i) for i in rng.permutation(len(costs)) if int(i) not in first]
    wanted = list(first)
    tried = 0
    while True:
        if not wanted and model.trained:
            scores = model.predict(features[left])
            order = np.argsort(-scores, kind="stable")[: batch - 1]
            wanted = [left[i] for i in order]
        for index in left:  # of chance: the whole first batch of an untrained model
            if len(wanted) >= batch:
                break
            if index not in wanted:
                wanted.append(index)
        for index in wanted:
            tried += 1
            if costs[index] <= target:
                return tried
        model.update("task", features[wanted], costs[wanted])
        left = [i for i in left if i not in wanted]
        wanted = []


def _models(seed: int) -> dict[str, XGBoostModel]:
    warm = XGBoostModel(seed=seed)
    shipped = shipped_model().model
    assert shipped is not None
    warm.start_from(shipped)
    return {"cold": XGBoostModel(seed=seed), "warm": warm}


def _defaults(samples: Samples) -> list[int]:
    rows = samples.task.space.default()
    known = {row.tobytes(): n for n, row in enumerate(samples.rows)}
    return [known[row.tobytes()] for row in rows if row.tobytes() in known]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.warm_start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", help="kernels that are not in what ships")
    parser.add_argument("--batch", type=int, default=8, help="schedules of a batch (8)")
    parser.add_argument("--seeds", type=int, default=3, help="searches of each kernel (3)")
    parser.add_argument(
        "--defaults", action="store_true", help="take the rules' default schedules first"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each kernel")
    options = parser.parse_args(arguments)
    say = sys.stdout.write
    if shipped_model().model is None:
        say(f"{shipped_model()}\n")
        return 1
    groups = unseen(TuningLog(options.log))
    records = [r for g in groups.values() for r in g]
    means: dict[str, list[float]] = {"cold": [], "warm": []}
    for samples in samples_of(records, LEAST).values():
        good = np.isfinite(samples.costs)
        first = _defaults(samples) if options.defaults else []
        first = [int(np.sum(good[:n])) for n in first if good[n]]
        features, costs = samples.features[good], samples.costs[good]
        counts: dict[str, list[int]] = {"cold": [], "warm": []}
        for seed in range(options.seeds):
            for name, model in _models(seed).items():
                rng = np.random.default_rng(seed)
                counts[name].append(trials_until(features, costs, model, rng, options.batch, first))
        for name, found in counts.items():
            means[name].append(float(np.mean(found)))
        if options.verbose:
            text = ", ".join(f"{name} {found[-1]:.1f}" for name, found in means.items())
            say(f"  {samples.task.workload.text}: {len(costs)} schedules; {text}\n")
    if not means["cold"]:
        say(f"no kernel with {LEAST} schedules\n")
        return 1
    cold, warm = np.array(means["cold"]), np.array(means["warm"])
    share = float(warm.mean() / cold.mean())
    say(
        f"trials until within 5 % of the best, {len(cold)} kernels: cold {cold.mean():.1f}, "
        f"warm {warm.mean():.1f} ({share:.2f} of them, bar {BAR}); in the middle "
        f"{np.median(cold):.1f} and {np.median(warm):.1f}; fewer in "
        f"{int((warm < cold).sum())}, more in {int((warm > cold).sum())}\n"
    )
    return int(share > BAR)


if __name__ == "__main__":
    sys.exit(main())
