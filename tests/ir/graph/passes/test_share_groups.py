"""Groups that differ in scalars: one function for many, and none that computes something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import parse
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.passes.share_groups import MOST_SCALARS, share_groups
from loopwright.ir.graph.verify import verify


def scaled(bodies: Sequence[Sequence[str]]) -> Module:
    """A program of groups, each of which applies operators to what the one before it gives.

    >>> "multiply(%0, 1.5f)" in str(scaled([["add(%, 2.5f)", "multiply(%, 1.5f)"]]))
    True
    """
    names = ["multiply", *(f"g{n}" for n in range(1, len(bodies)))]  # as the operator
    calls = [f"%{n} = @{names[n]}({f'%{n - 1}' if n else '%x'});" for n in range(len(bodies))]
    text = "def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {\n"
    text += "\n".join(calls) + f"\n%{len(bodies) - 1}\n}}\n"
    for n, body in enumerate(bodies):
        text += f"def @{names[n]}(%x: Tensor[(4), float32], primitive=True, pattern=0)"
        text += " -> Tensor[(4), float32] {\n"
        for k, operator in enumerate(body):
            value = operator.replace("%", f"%{k - 1}" if k else "%x")
            text += f"%{k} = {value};\n" if k < len(body) - 1 else f"{value}\n}}\n"
    return parse(text)


def groups(module: Module) -> set[str]:
    return module.functions.keys() - {"main"}


def test_equal_scalars_stay_in_the_code_and_those_of_one_column_are_one_parameter() -> None:
    bodies = [[f"multiply(%, {n}.5f)", "add(%, 7f)", f"maximum(%, {n}.5f)"] for n in range(1, 6)]
    module = verify(share_groups(scaled(bodies)))
    (name,) = groups(module)
    assert len(module.functions[name].params) == 2
    assert "add(%0, 7f)" in str(module) and "maximum(%1, %p1)" in str(module)


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([[f"multiply(%, {n}.5f)"] for n in range(3)], id="few"),
        pytest.param([["multiply(%, 2f)"], *([f"add(%, {n}f)"] for n in range(1, 4))], id="other"),
        pytest.param(
            [[f"add(%, {n + 1000 * k}.5f)" for k in range(MOST_SCALARS + 1)] for n in range(5)],
            id="too many scalars",
        ),
    ],
)
def test_what_stays_apart(bodies: list[list[str]]) -> None:
    module = scaled(bodies)
    assert share_groups(module) is module


def test_a_scalar_whose_code_is_simpler_stays() -> None:
    module = share_groups(scaled([[f"add(%, {n}f)"] for n in (0, 1, 2, 3, 4, float("inf"))]))
    assert groups(module) == {"multiply", "g1", "g5"}


def test_scalars_of_two_dtypes_are_two_parameters() -> None:
    def steps(x: Any, y: Any) -> Any:
        for n in range(1, 9):
            x, y = x[::-1] * (n / 8), y[::-1] * np.float32(n / 8)
        return x, y

    x, y = np.arange(9.0), np.arange(9, dtype=np.float32)
    for result, expected in zip(lw.compile(steps, capture=False)(x, y), steps(x, y), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def heat(u: Any, coefficients: Sequence[float]) -> Any:
    for c in coefficients:
        u[1:-1] = u[1:-1] + c * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def layers(x: Any, coefficients: Sequence[float]) -> Any:
    for c in coefficients:
        x = np.maximum(x @ np.full((32, 32), 0.05), c) + c / 2
    return x


@pytest.mark.parametrize(("function", "shape"), [(heat, (500,)), (layers, (32, 32))])
def test_the_number_of_kernels_does_not_grow_with_the_steps(function: Any, shape: Any) -> None:
    """Schedules and code are made per kernel: compile time is linear, with a small slope."""
    rng = np.random.default_rng(3)
    x = rng.random(shape)
    kernels: list[int] = []
    for steps in (24, 48):
        table = rng.uniform(0.1, 0.4, steps).tolist()
        compiled = lw.compile(lambda x, table=table: function(x, table), capture=False)
        program = compiled.lower(x.copy()).compile().as_text("kernels")
        kernels.append(program.count("prim @"))
        np.testing.assert_allclose(compiled(x.copy()), function(x.copy(), table), rtol=1e-12)
    assert kernels[0] == kernels[1] > 0
