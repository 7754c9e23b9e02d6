"""The LLVM text of random kernels, run for machines of every level, and errors planted in it.

``python tests/fuzz/text_run.py`` does the same for many more seeds.
"""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from loopwright.codegen.lower.lowering import LOWERINGS
from planted_lowering import ERRORS as ERRORS_OF_PASSES
from planted_text import ERRORS
from text_trial import MACHINES, planted_errors, planted_in_lowerings, trial


@pytest.fixture(autouse=True)
def quiet():
    """Kernels on nan and infinities: NumPy's warnings of the references are not the matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_text_says_what_the_expressions_say():
    outcomes = [trial(seed, 2) for seed in range(10)]
    assert not [text for _, bad in outcomes for text in bad]
    assert sum(count for count, _ in outcomes) > 30


def test_planted_errors_are_seen():
    seen: Counter[str] = Counter()
    for seed in range(100, 180):  # as many as it takes to see every kind
        for kind, said, is_none in planted_errors(seed, 1):
            assert said or is_none, f"seed {seed}: {kind}"
            seen[kind] += bool(said)
        if seed >= 107 and all(seen[kind] for kind in ERRORS):
            break
    assert len(ERRORS) >= 20 and not set(ERRORS) - {k for k, n in seen.items() if n}


def test_errors_planted_in_what_passes_return_are_seen():
    seen: dict[str, set[str]] = {lowering.__name__: set() for lowering in LOWERINGS}
    for seed in range(48):  # as many as it takes: what is drawn depends on what is registered
        machine = [MACHINES[seed % 4]]  # the others add rows of instructions, not passes
        for lowering, kind, said, is_none in planted_in_lowerings(seed, 1, machine):
            assert said or is_none, f"seed {seed}, {lowering}: {kind}"
            seen[lowering] |= {kind} if said else set()
        if seed >= 7 and all(len(kinds) >= 20 for kinds in seen.values()):
            break
    for lowering, kinds in seen.items():
        assert len(kinds) >= 20, (lowering, sorted(kinds))
    assert len(ERRORS_OF_PASSES) > 30
