"""The ``onnx`` package's own backend tests, run in compiled code.

``python tests/helpers/onnx_backend.py`` runs all of them and prints the count; names, or parts of
them, choose; ``--shard 1/4`` runs every fourth. ``tests/onnx/left_out.txt`` has what is left out,
with reasons. The exit code is 1 if anything else fails, or anything of that passes.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import onnx
from loopwright.tracer.frontends.onnx import NotKnownError
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
LEFT_OUT = Path(__file__).parents[1] / "onnx" / "left_out.txt"
_FOLDERS = Path(DATA_DIR)


def cases(kinds: tuple[str, ...] = KINDS) -> list[TestCase]:
    """All test cases of the installed package, in the order of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators divide by zero on purpose
        found = [case for kind in kinds for case in load_model_tests(kind=kind)]
    return sorted(found, key=lambda case: (case.kind, case.name))


def left_out() -> dict[str, str]:
    """The reasons of the cases that are left out, by name."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in LEFT_OUT.read_text().splitlines():
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line:
            assert reason and line not in reasons, line
            reasons[line] = reason
    return reasons


def model_of(case: TestCase) -> ModelProto:
    """The model of a case."""
    if case.model is not None:
        return case.model
    return onnx.load(_path(case))


def _path(case: TestCase) -> Path:
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    return _FOLDERS / "light" / f"light_{case.model_name}.onnx"


def data_of(case: TestCase, model: ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """The inputs and outputs of a case."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(each) for each in inputs], [_array(each) for each in outputs]
    elif case.model_dir is None:  # a light model: inputs as the runner of onnx makes them
        constants = {each.name for each in model.graph.initializer}
        inputs = [
            Runner.generate_dummy_data(each, seed=0, name=case.model_name, random=False)
            for each in model.graph.input
            if each.name not in constants
        ]
        files = [
            _path(case).with_name(f"light_{case.model_name}_output_{number}.pb")
            for number in range(len(model.graph.output))
        ]
        yield inputs, [_tensor(file) for file in files]
    else:
        for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
            yield (
                [_tensor(folder / f"input_{n}.pb") for n in range(_count(folder, "input"))],
                [_tensor(folder / f"output_{n}.pb") for n in range(_count(folder, "output"))],
            )


def _count(folder: Path, what: str) -> int:
    return len(list(folder.glob(f"{what}_*.pb")))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _tensor(file: Path) -> Any:
    return numpy_helper.to_array(onnx.load_tensor(str(file)))


def run(case: TestCase) -> None:
    """Compiles the model of ``case`` and compares its results as ``onnx`` does.

    Inputs that decide about the code, such as the shape of a Reshape, are given as constants.
    """
    model = model_of(case)
    initializers = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in initializers]
    for inputs, expected in data_of(case, model):
        feeds = dict(zip(names, inputs, strict=False))
        # That an optional is absent is a part of the model's type.
        constants = {name: feeds.pop(name) for name in [*feeds] if feeds[name] is None}
        shapes = {name: _shape(value) for name, value in feeds.items()}
        while True:
            try:
                compiled = lw.from_onnx(model, shapes=shapes, constants=constants, threads=1)
                break
            except NotKnownError as error:
                if not error.inputs:
                    raise
                for name in error.inputs:
                    constants[name] = feeds.pop(name)
                    shapes.pop(name, None)
        results = list(compiled.run(feeds).values())
        # Elements of sequences are compared as outputs are, which onnx does with their rows.
        assert list(map(_length, results)) == list(map(_length, expected))
        Runner.assert_similar_outputs(_flat(expected), _flat(results), case.rtol, case.atol)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _flat(values: list[Any]) -> list[Any]:
    """Values with the elements of sequences in their places."""
    lists = [each if isinstance(each, list) else [each] for each in values]
    return [np.asarray(each) for each in chain.from_iterable(lists)]


def _shape(value: Any) -> Any:
    return [_shape(each) for each in value] if isinstance(value, list) else value.shape


def _said(error: Exception) -> str:
    """An error on one line."""
    if isinstance(error, lw.LoopwrightError):
        text = "; ".join([error.message, *error.notes])
    else:
        text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="parts of names; all without")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these kinds")
    parser.add_argument("--shard", default="1/1", help="1/4: the first of four parts")
    parser.add_argument("--failures", metavar="FILE", help="write what fails here")
    parser.add_argument("--traceback", action="store_true")
    args = parser.parse_args()
    which, parts = map(int, args.shard.split("/"))
    chosen = [
        case
        for case in cases(tuple(args.kind or KINDS))
        if not args.names or any(name in case.name for name in args.names)
    ][which - 1 :: parts]
    reasons = left_out()
    failed: dict[str, str] = {}
    passed: list[TestCase] = []
    times: list[tuple[float, str]] = []
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    for case in chosen:
        start = time.perf_counter()
        try:
            run(case)
            passed.append(case)
        except Exception as error:
            failed[case.name] = _said(error)
            if args.traceback:
                traceback.print_exc()
        times.append((time.perf_counter() - start, case.name))
    if args.failures:
        Path(args.failures).write_text("".join(f"{n}: {e}\n" for n, e in failed.items()))
    for name, error in failed.items():
        if name not in reasons or args.names:
            print(f"FAILS {name}: {error}")
    print("slowest:", ", ".join(f"{name} {t:.1f} s" for t, name in sorted(times)[-3:]))
    stale = [case.name for case in passed if case.name in reasons]
    print("left out, but passing:", *stale)
    counts = Counter(case.kind for case in passed)
    kinds = Counter(case.kind for case in chosen)
    print(", ".join(f"{kind}: {counts[kind]} of {kinds[kind]}" for kind in kinds))
    print(f"{len(passed)} of {len(chosen)} pass in {sum(t for t, _ in times):.0f} s")
    return int(bool(stale) or any(name not in reasons for name in failed))


if __name__ == "__main__":
    sys.exit(main())
