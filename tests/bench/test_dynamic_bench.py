"""The programs with symbolic sizes and the decoder's bench: what they compute, which bars count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.decode.__main__ import Row as TokenRow
from bench.decode.__main__ import main as decode
from bench.decode.__main__ import summary as decode_summary
from bench.decode.limit import token_bytes
from bench.dynamic.__main__ import main
from bench.dynamic.programs import PROGRAMS, weights_of
from bench.dynamic.table import Row, summary, table
from examples.decoder import GPT2_SMALL


@pytest.mark.parametrize("name", ["mlp", "encoder", "softmax_norm", "convolutions"])
def test_numpy_computes_what_torch_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    from bench.dynamic.torch_side import module_of

    program = PROGRAMS[name]
    sizes = (2, 17, 19) if name == "convolutions" else (9,)
    x = program.input(sizes)
    with torch.no_grad():
        result = module_of(program)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(result, program.expected(x), rtol=1e-4, atol=1e-4)
    assert program.expected(program.input((0, 17, 17)[: len(sizes)])).shape[0] == 0
    assert len({*program.checked}) == len(program.checked) == 60
    assert weights_of(name) is weights_of(name)


def _row(dynamic: float, compiles: int = 1) -> Row:
    seconds: dict[str, list[float | None]] = {
        "dynamic": [dynamic, 2 * dynamic],
        "specialised": [1e-3, 2e-3],
        "openvino": [1.5e-3, None],
        "eager": [2e-3, 3e-3],
    }
    row = Row("mlp", ["7", "8"], seconds, {"dynamic": 1.5, "specialised": 1.0})
    row.compiles, row.checked = {"dynamic": compiles}, 60
    return row


def test_the_dynamic_form_is_compared_with_the_specialised_and_the_fastest_peer() -> None:
    text, met = summary([_row(1.05e-3)], 1e-6)
    assert met, text
    assert "takes 1.050x the specialised time (at most 1.05x); MET" in text
    assert "1.43x as fast as the fastest peer (at least 1.43x), ahead at 2 of 2; MET" in text
    assert "| mlp | 7 | 1050 | 1000 | 1500 | 2000 | 1.43 | 0.95 |" in table([_row(1.05e-3)])
    assert "at most 1.20x); MISSED" in summary([_row(1.2e-3)], None)[0]
    assert "2 compile for all sizes; MISSED" in summary([_row(1e-3, 2)], None)[0]
    wrong = _row(1e-3)
    wrong.wrong.append("(3,): off by 2")
    text, met = summary([wrong], None)
    assert not met and "right at 59 of 60 sizes; MISSED" in text


def test_a_token_is_compared_with_what_its_bytes_allow() -> None:
    assert token_bytes(GPT2_SMALL, 0) == 4 * (124_439_808 - 1023 * 768 + 24 * 768)
    row = TokenRow(0, 30 * 10**9, 30e9, {"ours": 1.1, "eager": 2.0}, asked={"ours": 0.0})
    text, met = decode_summary([row], 2)
    assert met and "ours: 91 % of the limit or more; MET" in text
    assert "eager 1.82x; MET" in text
    row.seconds["ours"] = 1.2
    assert not decode_summary([row], 2)[1]
    assert decode_summary([row], 1)[1], "the bar is for two threads"
    row.asked["ours"] = 1.0
    assert "1 requests of memory per call; MISSED" in decode_summary([row], 1)[0]


def test_unknown_names_are_said(capsys: Any) -> None:
    assert main(["--peers", "nobody"]) == decode(["--peers", "nobody"]) == main(["nothing"]) == 2
    assert "nobody" in capsys.readouterr().err
