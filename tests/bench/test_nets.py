"""The table of networks, and what it takes for its bars to be met."""

from __future__ import annotations

from bench.nets.__main__ import Row, main, summary, table


def _row(net: str, ours: float, peer: float, wrong: float = 1e-6) -> Row:
    seconds = {"onnx": ours, "onnx-tuned": ours / 1.2, "openvino": peer, "eager": 2 * peer}
    return Row(net, 1, seconds, wrong=dict.fromkeys(seconds, wrong))


def test_the_fastest_peer_counts() -> None:
    rows = [_row("a", 1e-3, 1.1e-3), _row("b", 2e-3, 2.2e-3)]
    assert rows[0].lead("onnx") == 1.1
    assert "| a | 1 | 0.833 | 1.1 | 2.2 | 1.10 | 1.32 |" in table(rows)
    text, met = summary(rows)
    assert met and "onnx: geometric mean 1.100x the fastest peer" in text


def test_each_network_has_to_be_ahead_when_tuned() -> None:
    text, met = summary([_row("a", 1e-3, 3e-3), _row("b", 1e-3, 0.8e-3)])
    assert not met and text.count("MISSED") == 1


def test_a_wrong_result_misses_the_bar() -> None:
    assert not summary([_row("a", 1e-3, 2e-3, wrong=2e-4)])[1]


def test_a_network_that_fails_misses_the_bar() -> None:
    row = _row("a", 1e-3, 2e-3)
    row.failed["torch"] = "UnsupportedError: no such operator"
    text, met = summary([row])
    assert not met and "a: torch: UnsupportedError" in text


def test_an_unknown_peer_is_said(capsys) -> None:
    assert main(["--peers", "nobody"]) == 2
    assert "no peer nobody" in capsys.readouterr().err
