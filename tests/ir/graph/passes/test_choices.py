"""Sites of choices: the same in every program, decided by a table, right whichever way they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import assert_same_value, module, random_args, scalar, tensor
from loopwright.ir.graph.choices import Choices, Site
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.verify import verify

LOOSE = Preferences(within_tolerance=False)


def lowered(program: Module, choices: Choices | None, preferences: Preferences = LOOSE) -> Module:
    for one in default_pipeline(preferences, choices):
        program = one(program)
        assert one(program) is program
    return verify(program)


def kernels(program: Module) -> int:
    return sum(1 for f in program.functions.values() if f.attrs.get("primitive"))


def attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    scores = m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1)))
    e = m.exp(m.subtract(scores, m.max(scores, axis=(2,), keepdims=True)))
    return m("nn.matmul", m.divide(e, m.sum(e, axis=(2,), keepdims=True)), v)


def layer(m: Any, x: Any) -> Any:
    return m.maximum(m("nn.matmul", x, Constant(np.ones((8, 4), np.float32))), scalar(0.0))


def conv(m: Any, x: Any) -> Any:
    w = Constant(np.random.default_rng(0).random((8, 8, 3, 3), np.float32), "w")
    return m("nn.relu", m("nn.conv2d", x, w, padding=1))


def two_results(m: Any, x: Any) -> Any:
    y = m.exp(x)
    return [y, m.multiply(y, scalar(2.0))]


PROGRAMS = {
    "attention": module(attention, tensor(2, 20, 8), tensor(2, 24, 8), tensor(2, 24, 12)),
    "layer": module(layer, tensor(3, 8)),
    "conv": module(conv, tensor(1, 8, 12, 12)),
    "two results": module(two_results, tensor(4, 5)),
}


def sites(program: Module) -> dict[str, Site]:
    choices = Choices({})
    lowered(program, choices)
    return choices.sites


@pytest.mark.parametrize("name", PROGRAMS)
def test_asking_changes_nothing(name: str) -> None:
    program = PROGRAMS[name]
    assert str(lowered(program, Choices({}))) == str(lowered(program, None))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_of_every_site_means_the_same(name: str) -> None:
    program = PROGRAMS[name]
    args = random_args(program)
    expected = evaluate(program, *args)
    found = sites(program)
    assert found
    for key, site in found.items():
        for option in site.options:
            result = lowered(program, Choices({key: option}))
            assert_same_value(evaluate(result, *args), expected, rtol=1e-3)


def test_what_is_kept_apart_is_more_kernels() -> None:
    for name in ("attention", "layer"):
        program = PROGRAMS[name]
        (site,) = sites(program).values()
        assert (site.about, site.options) == ("fusion", ("fused", "apart"))
        apart = lowered(program, Choices({site.key: "apart"}))
        assert kernels(apart) > kernels(lowered(program, None)) == 1


def test_a_convolution_has_a_choice_of_algorithm_and_of_layout() -> None:
    found = {s.about: s for s in sites(PROGRAMS["conv"]).values()}
    assert set(found) == {"algorithm", "layout", "fusion"}
    assert set(found["algorithm"].options) == {"direct", "winograd2", "winograd4"}
    strict = Choices({})
    lowered(PROGRAMS["conv"], strict, Preferences(error_growth=1.0))
    assert "algorithm" not in {s.about for s in strict.sites.values()}


def test_an_option_that_is_not_exact_enough_is_not_taken_whatever_a_log_says() -> None:
    program = PROGRAMS["conv"]
    (site,) = (s for s in sites(program).values() if s.about == "algorithm")
    strict = Preferences(error_growth=1.0)
    assert "winograd" not in str(lowered(program, Choices({site.key: "winograd4"}), strict))
    assert "winograd" in str(lowered(program, Choices({site.key: "winograd4"})))


def test_sites_are_known_by_what_stands_there_not_by_names_or_surroundings() -> None:
    around = module(lambda m, x: m.negative(layer(m, m.negative(x))), tensor(3, 8))
    assert sites(around).keys() == sites(PROGRAMS["layer"]).keys()
    assert sites(module(layer, tensor(5, 8))).keys() != sites(PROGRAMS["layer"]).keys()


def test_the_keys_of_sites_are_frozen() -> None:
    """A log is to stay readable for ever."""
    keys = {s.about: k for k, s in sites(PROGRAMS["layer"]).items()}
    assert keys == {"fusion": "36fb9637021ffda3"}
