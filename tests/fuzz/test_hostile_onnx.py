"""Damaged and malicious model files: an error each, in a process with little memory and time."""

from __future__ import annotations

from pathlib import Path

from hostile_onnx import NAMES
from isolated import run_isolated

SCRIPT = Path(__file__).with_name("hostile_onnx_run.py")
DAMAGED = 60


def test_malicious_models_are_refused() -> None:
    assert not run_isolated(SCRIPT, 0, len(NAMES))


def test_damaged_models_are_refused_or_run() -> None:
    assert not run_isolated(SCRIPT, len(NAMES), len(NAMES) + DAMAGED)
