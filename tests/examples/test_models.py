"""The examples that bring a model of their own."""

from __future__ import annotations

import pytest

from examples import image_classifier


def test_images_are_classified_as_numpy_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert image_classifier.main([]) == 0
    assert "of 360 unseen digits are right" in capsys.readouterr().out
