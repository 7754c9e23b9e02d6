"""Random ONNX models agree with the standard's evaluator; ``onnx_run.py`` runs thousands."""

from __future__ import annotations

import pytest
from random_onnx import ROWS, draw_model, mistakes
from random_onnx_cases import WITH_ROWS
from run_onnx import CONVERTED, MISJUDGED, results_of

JUDGED = {name: ROWS[name] for name in WITH_ROWS - MISJUDGED}


@pytest.mark.parametrize("seed", range(60))
def test_random_models_interpreted(seed: int) -> None:
    program = draw_model(seed, JUDGED)
    assert not mistakes(program, results_of(program, interpreted=True)), str(program)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_random_models_compiled(seed: int) -> None:
    program = draw_model(seed, JUDGED)
    assert not mistakes(program, results_of(program)), str(program)


def test_every_operator_that_has_a_converter_is_drawn() -> None:
    drawn = {name.strip("@") for name in ROWS}
    # ZipMap gives its operand; no CPU kernel of ONNX Runtime judges BiasSoftmax.
    assert set(CONVERTED) - drawn == {"BiasSoftmax", "ZipMap"}
    shared = {name for name, domains in CONVERTED.items() if len(domains) > 1}
    assert {f"{name}@" for name in shared} - ROWS.keys() == {"SimplifiedLayerNormalization@"}
