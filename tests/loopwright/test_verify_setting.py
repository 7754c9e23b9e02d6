"""``LOOPWRIGHT_VERIFY=1``: a pass that breaks the graph is named, wherever passes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import loopwright.debug
import numpy as np
import pytest
from loopwright.debug import graph
from loopwright.driver import pipeline
from loopwright.ir.graph.nodes import Block, Function, Module
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.tuning import variants

X = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)


def lose_a_binding(module: Module) -> Module:
    """A pass that drops what others read."""
    main = module.main
    body = Block(main.body.bindings[1:], main.body.result)
    return module.with_function("main", Function(main.params, body, main.attrs))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def passes(*args: Any) -> list[Any]:
        return [lose_a_binding, *default_pipeline(*args)]

    for place in (pipeline, variants, graph):
        monkeypatch.setattr(place, "default_pipeline", passes)
    return monkeypatch


def function(x: Any) -> Any:
    return np.exp(x) + x.sum(axis=1, keepdims=True)


WAYS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(X),
    "lower": lambda f: f.lower(X),
    "tune": lambda f: f.tune(X, trials=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_that_breaks_the_graph_is_named(way: str, broken: pytest.MonkeyPatch) -> None:
    broken.setenv("LOOPWRIGHT_VERIFY", "1")
    with pytest.raises(lw.InternalError) as caught:
        WAYS[way](lw.compile(function))
    assert "in the pass lose_a_binding" in caught.value.notes


def test_what_tuning_lowers_is_verified(broken: pytest.MonkeyPatch) -> None:
    module = lw.compile(function).trace(X).module
    with pytest.raises(lw.InternalError, match="lose_a_binding"):
        variants.Variants(module, pipeline.DEFAULT_PREFERENCES, lw.PassContext(verify=True)).of({})


def test_the_debugger_always_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWRIGHT_VERIFY", raising=False)
    lowered = lw.compile(function).lower(X)
    monkeypatch.setattr(graph, "default_pipeline", lambda *args: [lose_a_binding])
    built = lowered.built
    assert built.source is not None
    with pytest.raises(lw.InternalError, match="lose_a_binding"):
        graph.wrong_pass(built, [X], -1.0)
