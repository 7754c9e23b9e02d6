"""``python -m bench.kills``: 1,000 random kills over an hour's worth of simulated tuning."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from .fire import Outcome, under_fire

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 if anything was lost or left."""
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="under-fire-"))
    try:
        outcome = under_fire(args.kills, folder, args.seed, _show)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {args.seed}: {outcome}")
    return int(bool(outcome.problems))


def _show(outcome: Outcome) -> None:
    kept = f"{outcome.acknowledged} records acknowledged, {outcome.records} in the logs"
    print(f"{outcome.kills} kills, {kept}, {len(outcome.problems)} problems", flush=True)


if __name__ == "__main__":
    sys.exit(main())
