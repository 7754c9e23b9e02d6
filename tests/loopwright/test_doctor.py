"""``loopwright doctor`` finds out whether the installation works, by using it."""

from __future__ import annotations

import pytest
from loopwright.commands import doctor


def test_an_installation_that_works() -> None:
    assert list(doctor._works()) == []


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import os; os.abort()", "compiling and running a small program ends with signal 6"),
        ("raise ImportError('too old')", "ends with an error: ImportError: too old"),
    ],
)
def test_one_that_does_not_is_a_problem(
    program: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_PROGRAM", program)
    (found,) = doctor._works()
    assert problem in found
