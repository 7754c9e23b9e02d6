"""The samples of all operators as C: ``python tests/fuzz/c_source_run.py [--vectors LEVEL]``.

Prints each sample whose result is not the reference's, or whose text the compiler refuses.
``--every 4`` takes a quarter of the operators.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import compiled
from c_kernels import NAMES, CKernels, prepared
from loopwright.codegen.target import Target
from loopwright.ir.errors import UnsupportedError
from operators import Evaluated, assert_agree


def failures(name: str, vectors: Target | None, folder: Path, most: int | None = None) -> list[str]:
    """Returns what is wrong with the samples of an operator."""
    target, kernels = vectors or Target(), CKernels(vectors)
    samples = prepared(name, most)
    try:
        for args, module, _, _ in samples:
            compiled.run_module(module, args, target, kernels.collect, None)
        kernels.compile(folder, "-O1")
    except (UnsupportedError, AssertionError) as error:
        return [f"{name}: {str(error)[:500]}"]
    wrong: list[str] = []
    for number, (args, module, wanted, length) in enumerate(samples):
        found = compiled.run_module(module, args, target, kernels.run, None)
        try:
            assert_agree(Evaluated(found, length), wanted, args)
        except AssertionError as error:
            wrong.append(f"{name}, sample {number}: {str(error)[:500]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", metavar="LEVEL", help="with vectors as long as this level's")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    vectors = given.vectors and Target(isa=given.vectors)
    count = 0
    for name in NAMES[:: given.every]:
        with tempfile.TemporaryDirectory() as folder:
            for text in failures(name, vectors, Path(folder)):
                count += 1
                print(text, flush=True)
    print(f"{len(NAMES[:: given.every])} operators, {count} failures")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
