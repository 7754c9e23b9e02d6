"""Random layers on bytes are within one quantum of ONNX's meaning."""

from __future__ import annotations

import numpy as np
import pytest
import random_quantised
from random_quantised import KINDS, draw_layer, failure


@pytest.mark.parametrize("block", range(6))
def test_layers_on_bytes(block: int) -> None:
    with np.errstate(all="ignore"):
        wrong = {seed: failure(draw_layer(seed)) for seed in range(9 * block, 9 * block + 9)}
    assert not any(wrong.values()), {seed: text for seed, text in wrong.items() if text}


def test_every_kind_is_drawn() -> None:
    kinds = {draw_layer(seed).nodes[-1].op_type for seed in range(400)}
    assert {
        "ConvInteger",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    } < kinds
    assert len(KINDS) == 6


def test_a_result_two_quanta_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = next(d for d in map(draw_layer, range(99)) if d.nodes[-1].op_type == "QLinearMatMul")
    right = random_quantised.references(layer)
    middle = {who: np.where(r > 50, r - 2, r + 2).astype(r.dtype) for who, r in right.items()}
    monkeypatch.setattr(random_quantised, "references", lambda _: middle)
    assert "off by 2" in failure(layer)
