"""The line shown in tuning_logs/README.md is one that Loopwright reads and writes."""

from __future__ import annotations

import json
import re

import repo_sources as sources
from loopwright.autotune.log.decision import ABOUT, Decision
from loopwright.autotune.record import ERRORS, MeasureRecord

README = sources.ROOT / "tuning_logs" / "README.md"


def _example(kind: int = 0) -> dict:
    blocks = re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)
    return json.loads(blocks[kind])


def test_the_example_line_is_read_and_written_again() -> None:
    example = _example()
    assert json.loads(MeasureRecord.from_json(json.dumps(example)).to_json()) == example


def test_every_field_and_every_error_is_described() -> None:
    described = set(re.findall(r"`([a-z_0-9.]+)`", README.read_text()))
    fields = set(_example()) - {"workload"} | {f"workload.{k}" for k in _example()["workload"]}
    assert fields | set(ERRORS) <= described


def test_the_decision_shown_is_read_and_written_again() -> None:
    example = _example(2)
    assert json.loads(Decision.from_json(json.dumps(example)).to_json()) == example
    described = set(re.findall(r"`([a-z_0-9.]+)`", README.read_text()))
    assert set(example) | set(ABOUT) <= described
