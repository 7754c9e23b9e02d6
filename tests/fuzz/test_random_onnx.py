"""Random ONNX models agree with the standard's evaluator; ``onnx_run.py`` runs thousands."""

from __future__ import annotations

import pytest
from random_onnx import ROWS, draw_model, mistakes
from random_onnx_cases import WITH_ROWS
from run_onnx import MISJUDGED, results_of

JUDGED = {name: ROWS[name] for name in WITH_ROWS - MISJUDGED}


@pytest.mark.parametrize("seed", range(60))
def test_random_models_interpreted(seed: int) -> None:
    program = draw_model(seed, JUDGED)
    assert not mistakes(program, results_of(program, interpreted=True)), str(program)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_random_models_compiled(seed: int) -> None:
    program = draw_model(seed, JUDGED)
    assert not mistakes(program, results_of(program)), str(program)
