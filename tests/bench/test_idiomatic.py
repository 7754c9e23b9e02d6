"""The programs of ``bench.idiomatic`` are what they say; the bars are judged by the figures."""

from __future__ import annotations

import math

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.types import TupleType

from bench.idiomatic import KIND, PROGRAMS
from bench.idiomatic.__main__ import main
from bench.idiomatic.table import meets_bars, summary_text, table_text
from bench.namespaces.of_loopwright import Loopwright
from bench.row import Row
from bench.worker import _prepare

# What is still refused: every embedding whose table is a NumPy array.
NOT_TRACED = {"embedding"}


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NOT_TRACED])
def test_a_program_gives_what_it_declares(name: str) -> None:
    workload = PROGRAMS[name]
    arrays = workload.arrays()
    known = {n: a for n, a in arrays.items() if n in workload.constants}

    def function(*given: object) -> object:
        rest = iter(given)
        return workload.body(
            Loopwright(), *(known[n] if n in known else next(rest) for n in arrays)
        )

    given = [a for n, a in arrays.items() if n not in known]
    result = lw.compile(function).trace(*given).module.main.type.result
    kinds = result.fields if isinstance(result, TupleType) else (result,)  # all that is written
    assert str(kinds[0].dtype) == workload.result_dtype
    assert sum(math.prod(k.shape) * k.dtype.bytes for k in kinds) == workload.written


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= 80
    assert len({w.family for w in PROGRAMS.values()}) == 8


@pytest.mark.parametrize("library", ["untuned", "numpy-haswell"])
def test_a_process_makes_a_program_by_its_name(library: str, tmp_path) -> None:
    expected = tmp_path / "expected.npy"
    np.save(expected, PROGRAMS["pairwise_two"].expected())
    command = {
        "kind": KIND,
        "params": {"name": "pairwise_two"},
        "threads": 1,
        "expected": str(expected),
        "options": {},
    }
    call, answer = _prepare(library, command)
    assert answer["wrong"] <= 1
    assert call().shape == (400, 500)


def _row(name: str, untuned: float, tuned: float, numpy: float) -> Row:
    seconds = {"untuned": untuned, "tuned": tuned, "numpy-haswell": numpy, "numpy-x": 2 * numpy}
    return Row(name, 1, 1e-4, "flops", "attention", seconds=seconds)


def test_the_bars() -> None:
    good = _row("good", 1e-3, 0.99e-3, 2e-3)
    assert meets_bars([good])
    assert not meets_bars([good, _row("slow", 3e-3, 3e-3, 2e-3)])  # 1.5x NumPy
    assert not meets_bars([good, _row("untuned", 1.6e-3, 1e-3, 2e-3)])  # 1.6x tuned
    assert not meets_bars([_row("mean", 1.2e-3, 1e-3, 2e-3)])  # 1.2x tuned on average
    assert not meets_bars([Row("failed", 1, 1e-4, "flops", failed={"untuned": "no"})])


def test_the_table_has_the_worst_first() -> None:
    rows = [_row("good", 1e-3, 0.8e-3, 2e-3), _row("slow", 4e-3, 2e-3, 2e-3)]
    lines = table_text(rows).splitlines()
    assert lines[2] == "| slow | attention | 0.1 | flops | 2 | 4 | 2 | 2.00x | 2.00x | 2 | - |"
    assert lines[3].startswith("| good | attention |")
    assert summary_text(rows).splitlines() == [
        "- untuned over NumPy: geometric mean 1.000 of 2 programs; 1 above 1.1x: slow 2.00x",
        "- untuned over tuned: geometric mean 1.581 of 2 programs; 1 above 1.5x: slow 2.00x",
    ]


def test_the_list(capsys) -> None:
    assert main(["--list", "causal"]) == 0
    out = capsys.readouterr().out
    assert "attention    causal_tril_inf\n" in out
    assert "gram" not in out
    assert main(["nothing-like-it"]) == 2
