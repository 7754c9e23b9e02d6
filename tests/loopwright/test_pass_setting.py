"""``lw.compile(..., passes=...)`` and ``LOOPWRIGHT_DUMP``: one context for all lists of passes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def function(x: Any) -> Any:
    return lw.nn.softmax(x * 1 + 2) @ x.T


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_computes_the_same(level: int) -> None:
    context = lw.PassContext(opt_level=level, verify=True)
    compiled = lw.compile(function, passes=context)
    np.testing.assert_allclose(compiled(X), lw.compile(function)(X), rtol=1e-6)
    names = {run.name for run in context.runs}
    assert {"fuse_operators", "plan_memory"} <= names
    assert ("simplify" in names) == (level >= 1)
    assert ("order_calls" in names) == (level >= 2)


def test_a_disabled_pass_does_not_run_when_tuning() -> None:
    context = lw.PassContext(disabled=("simplify", "eliminate_copies"))
    compiled = lw.compile(function, passes=context)
    compiled.tune(X, trials=1)
    np.testing.assert_allclose(compiled(X), lw.compile(function)(X), rtol=1e-6)
    lowered = compiled.lower(X)
    assert "multiply" in lowered.as_text("kernels")
    assert "multiply" not in lw.compile(function).lower(X).as_text("kernels")
    assert not {"simplify", "eliminate_copies"} & {run.name for run in context.runs}


def test_a_pass_that_is_not_there_is_an_error() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="try: simplify"):
        lw.compile(function, passes=lw.PassContext(disabled=("simplfy",)))(X)


def test_dump_has_the_text_after_each_pass_that_changed_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_DUMP", str(tmp_path))
    compiled = lw.compile(function)
    compiled(X)
    compiled(X[:2])
    assert sorted({p.name.partition("-")[0] for p in tmp_path.iterdir()}) == ["000", "001"]
    names = [p.name for p in sorted((tmp_path / "000-function-passes").iterdir())]
    assert names[0] == "00_graph.txt"
    changed = [name.partition("_")[2].removesuffix(".txt") for name in names]
    assert {"simplify", "fuse_operators", "program", "plan_memory"} <= set(changed)
    assert changed.index("fuse_operators") < changed.index("program")
    texts = [(tmp_path / "000-function-passes" / name).read_text() for name in names]
    assert all(a != b for a, b in pairwise(texts))
