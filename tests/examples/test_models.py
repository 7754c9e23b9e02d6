"""The examples that bring a model of their own, which they train when they are imported: within a
test, so that not every process that collects them does."""

from __future__ import annotations

import pytest


def test_images_are_classified_as_numpy_does(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import image_classifier

    assert image_classifier.main([]) == 0
    assert "of 360 unseen digits are right" in capsys.readouterr().out


def test_the_nearest_sentence_is_of_the_same_topic(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from examples import text_encoder

    assert text_encoder.main(["--steps", "40"]) == 0
    text = capsys.readouterr()
    assert "PyTorch runs" not in text.err, "all graphs are ours"
    assert "8 of 8" in text.out
