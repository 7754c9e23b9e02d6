"""A sample of the backend tests of ``onnx``; ``helpers/onnx_backend.py`` runs them all."""

from __future__ import annotations

import numpy as np
import onnx_backend
import pytest

SHARDS = 12
"""One case of so many is run here, which takes ten seconds."""


@pytest.fixture(scope="module")
def cases() -> list[onnx_backend.TestCase]:
    return onnx_backend.cases()


def test_every_twelfth_case_passes(cases: list[onnx_backend.TestCase]) -> None:
    reasons = onnx_backend.left_out()
    wrong: list[str] = []
    for case in [case for case in cases if case.name not in reasons][::SHARDS]:
        try:
            with np.errstate(all="ignore"):
                onnx_backend.run(case)
        except Exception as error:
            wrong.append(f"{case.name}: {error}")
    assert not wrong, "\n".join(wrong)


def test_what_is_left_out_does_not_pass(cases: list[onnx_backend.TestCase]) -> None:
    reasons = onnx_backend.left_out()
    passing: list[str] = []
    for case in [case for case in cases if case.name in reasons][::SHARDS]:
        try:
            with np.errstate(all="ignore"):
                onnx_backend.run(case)
        except Exception:
            continue
        passing.append(case.name)
    assert not passing, "take them off tests/onnx/left_out.txt"


def test_what_is_left_out_is_a_case_with_a_reason(cases: list[onnx_backend.TestCase]) -> None:
    assert set(onnx_backend.left_out()) <= {case.name for case in cases}
