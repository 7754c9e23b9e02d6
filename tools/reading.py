"""The files that one first call of a compiled function runs through, with their lines.

::

    python -m tools.reading            the files, longest first, and the totals
    python -m tools.reading --most 80  exit code 1 if there are more files than that

Only functions that are called count, not the import of modules. The function is a multilayer
perceptron of two layers, compiled without a tuning log on one thread.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["files_entered", "first_call"]

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("loopwright", "tracer", "ir", "autotune", "codegen")


def first_call() -> None:
    """Compiles and runs a perceptron of two layers."""

    def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return np.maximum(x @ w1 + b1, 0) @ w2 + b2

    rng = np.random.default_rng(0)
    shapes = ((32, 64), (64, 128), (128,), (128, 10), (10,))
    lw.compile(mlp, threads=1)(*(rng.random(s, dtype=np.float32) for s in shapes))


def files_entered(run: Callable[[], Any]) -> dict[Path, int]:
    """Returns the functions of the product that ``run`` enters, counted by file."""
    entered: set[tuple[str, str]] = set()
    imports = 0  # modules that are being imported

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal imports
        code = frame.f_code
        if code.co_name == "<module>":
            imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not imports:
            entered.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    counts: dict[Path, int] = {}
    for name, _ in entered:
        path = Path(name)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PARTS:
            path = path.relative_to(ROOT)
            counts[path] = counts.get(path, 0) + 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="files that are allowed")
    most = parser.parse_args().most
    counts = files_entered(first_call)
    lines = {path: len((ROOT / path).read_text().splitlines()) for path in counts}
    for path in sorted(counts, key=str):
        print(f"{lines[path]:6} lines  {counts[path]:4} functions  {path}")
    print(f"{len(counts)} files, {sum(lines.values())} lines, {sum(counts.values())} functions")
    if most is not None and len(counts) > most:
        sys.exit(1)


if __name__ == "__main__":
    main()
