"""Convolutions become Winograd's where that is estimated to pay, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import module, tensor
from loopwright.ir.graph.limits import GraphLimits
from loopwright.ir.graph.nodes import Call, Constant, Module
from loopwright.ir.graph.passes.choose_algorithms import (
    DEFAULT_PREFERENCES,
    Preferences,
    choose_algorithms,
)
from loopwright.ir.graph.verify import verify


def conv(
    size: int, channels: int, outputs: int, kernel: int = 3, *, known: bool = True, **attrs: Any
) -> Module:
    own = channels // attrs.get("groups", 1)
    shape = (outputs, own, kernel, kernel)

    def make(m: Any, x: Any, *rest: Any) -> Any:
        w = Constant(np.ones(shape, np.float32)) if known else rest[0]
        return m("nn.conv2d", x, w, **attrs)

    extra = () if known else (tensor(*shape),)
    return module(make, tensor(1, channels, size, size), *extra)


def chosen(program: Module, preferences: Preferences = DEFAULT_PREFERENCES) -> str:
    after = verify(choose_algorithms(program, preferences))
    assert choose_algorithms(after, preferences) is after
    (call,) = (b.value for b in after.main.body.bindings)
    assert isinstance(call, Call)
    if call.attrs["algorithm"] == "auto":
        assert after is program
    return call.attrs["algorithm"]


@pytest.mark.parametrize(("size", "channels"), [(28, 128), (56, 160)])
def test_large_images_take_large_tiles(size: int, channels: int) -> None:
    assert chosen(conv(size, channels, channels, padding=1)) == "winograd4"


def test_short_sums_take_large_tiles_only_if_the_tolerance_does_not_matter() -> None:
    program = conv(56, 64, 64, padding=1)
    assert chosen(program) != "winograd4"
    assert chosen(program, Preferences(within_tolerance=False)) == "winograd4"


@pytest.mark.parametrize(("fetch", "algorithm"), [(10.0, "winograd2"), (32.0, "auto")])
def test_small_deep_images_are_left_alone_where_the_kernel_comes_too_slowly(
    fetch: float, algorithm: str
) -> None:
    preferences = Preferences(limits=GraphLimits(fetch_weights=fetch))
    assert chosen(conv(4, 512, 512, padding=1)) == "auto"
    assert chosen(conv(7, 512, 512, padding=1), preferences) == algorithm
    assert chosen(conv(14, 512, 512, padding=1), preferences) != "auto"


def test_points_of_a_tile_that_share_a_set_of_the_cache_cost_more() -> None:
    assert chosen(conv(34, 32, 256, padding=1)) == "winograd2"
    assert chosen(conv(32, 32, 256, padding=1)) == "auto"


def test_kernels_that_are_no_constants_are_left_alone() -> None:
    assert chosen(conv(56, 64, 64, padding=1, known=False)) == "auto"


@pytest.mark.parametrize("attrs", [{"strides": 2}, {"dilation": 2}, {"algorithm": "direct"}])
def test_other_windows_are_left_alone(attrs: dict[str, Any]) -> None:
    assert chosen(conv(58, 64, 64, **attrs)) in ("auto", "direct")
    assert chosen(conv(58, 64, 64, 1)) == "auto"
    assert chosen(conv(58, 64, 64, 5)) == "auto"


@pytest.mark.parametrize(("groups", "algorithm"), [(2, "winograd2"), (32, "auto"), (128, "auto")])
def test_groups_are_products_of_their_own(groups: int, algorithm: str) -> None:
    """128 channels in two groups are two convolutions of 64, which use small tiles; groups of a few
    channels, or one, would be products of next to nothing."""
    preferences = Preferences(within_tolerance=False, error_growth=4.0)
    assert chosen(conv(28, 128, 128, padding=1, groups=groups), preferences) == algorithm


def test_the_first_layer_of_three_channels_is_left_alone() -> None:
    assert chosen(conv(224, 3, 64, padding=1)) == "auto"


def test_an_error_that_is_not_welcome_rules_an_algorithm_out() -> None:
    program = conv(28, 128, 128, padding=1)
    assert chosen(program, Preferences(error_growth=1.0)) == "auto"
    assert chosen(program, Preferences(error_growth=4.0)) == "winograd2"
