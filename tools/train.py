"""Trains the cost model that ships, from logs: ``python -m tools.train``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.model.cost_model import has_xgboost
from loopwright.autotune.model.shipped import MODEL_FILE, sample_logs
from loopwright.commands.log import existing_log
from loopwright.commands.usage import UsageError

from .samples import samples_of
from .shipping import cross_validated, samples_to_ship, train_model, winners_to_ship, write_records

__all__ = ["main"]

_EXAMPLES = """\
examples:
  python -m tools.train    from the samples that ship with the package
  python -m tools.train net.jsonl -o model.json   from a log of one's own
  python -m tools.train --folds 5   also say how good it is on tasks it has not seen
  loopwright train a.jsonl b.jsonl --ship 20       and keep winners and 20 samples of each task

The model is XGBoost's own JSON with the version of the features in it. What `python -m
bench.collect` measures is made to be trained on; any tuning log will do.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 2 for wrong arguments."""
    try:
        return _run(_parser().parse_args(argv))
    except UsageError as error:
        print(f"train: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.train",
        description="Train a cost model on all measured runs of logs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", nargs="*", metavar="LOG", help="logs (those that ship)")
    parser.add_argument("-o", "--out", metavar="FILE", help="where the model goes (the package)")
    parser.add_argument("--folds", type=int, default=0, metavar="N", help="judge it N-fold (0)")
    parser.add_argument(
        "--ship", type=int, default=0, metavar="N", help="write winners and N samples a task, too"
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    if not has_xgboost():
        raise UsageError("training needs xgboost: pip install xgboost")
    if args.folds == 1 or args.folds < 0 or args.ship < 0:
        raise UsageError("--folds is at least 2 or 0, --ship at least 0")
    folder = Path(str(files("loopwright.tuning_logs")))
    paths = [existing_log(name) for name in args.logs] or list(sample_logs())
    records = [record for path in paths for record in TuningLog(path)]
    if args.ship:
        samples_path = folder / "samples" / "samples.jsonl"
        write_records(folder / "winners.jsonl", winners_to_ship(samples_of(records).values()))
        write_records(samples_path, samples_to_ship(records, args.ship))
        records = list(TuningLog(samples_path))
    samples = [s for s in samples_of(records).values() if len(s.costs) > 1]
    if not samples:
        raise UsageError("there is nothing to learn from: no task with two schedules that ran")
    lost = sum(s.lost for s in samples)
    count = sum(len(s.costs) for s in samples)
    print(f"{count} schedules of {len(samples)} tasks, {lost} more are no longer in the space")
    if args.folds:
        qualities = cross_validated(samples, args.folds)
        clear = [q for q in qualities if q.clear is not None and np.isfinite(q.clear)]
        print(
            "on tasks not seen: "
            f"pairwise accuracy {np.nanmean([q.pairwise for q in qualities]):.3f} "
            f"({np.mean([q.clear or 0.0 for q in clear]):.3f} of pairs 5 % apart, "
            f"{np.nanmean([np.nan if q.best is None else q.best for q in qualities]):.3f} of those "
            "in the best tenth), "
            f"recall of the best 15 % {np.mean([q.recall for q in qualities]):.3f}"
        )
    out = Path(args.out) if args.out else folder / MODEL_FILE
    train_model(samples, out)
    print(f"{out}: {out.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
