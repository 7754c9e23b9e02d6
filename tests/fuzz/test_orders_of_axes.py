"""Random transposes, reshapes, reductions and elementwise operators behind convolutions compute the
same when transposes have moved."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from graphs import module, random_args, tensor
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Constant
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives
from loopwright.ir.graph.passes.sink_transposes import sink_transposes
from loopwright.ir.graph.verify import verify

PROGRAMS = 40  # for each seed


class Draw:
    """Draws operators on values that were made before, and what a program gives: a number that
    depends on the place of every element of its last values."""

    def __init__(self, rng: np.random.Generator, m: Any) -> None:
        self.rng, self.m = rng, m

    def below(self, bound: int) -> int:
        return int(self.rng.integers(bound))

    def numbers(self, shape: tuple[int, ...]) -> Constant:
        return Constant(self.rng.standard_normal(shape).astype(np.float32))

    def shape_of(self, size: int) -> tuple[int, ...]:
        """A shape of ``size`` elements."""
        factors: list[int] = []
        while size > 1:
            divisors = [d for d in range(2, size + 1) if size % d == 0]
            factors.append(divisors[self.below(len(divisors))])
            size //= factors[-1]
        while len(factors) > 5:
            place = self.below(len(factors) - 1)
            factors[place : place + 2] = [factors[place] * factors[place + 1]]
        for _ in range(self.below(3)):
            factors.insert(self.below(len(factors) + 1), 1)
        return tuple(factors)

    def value(self, values: list[Any]) -> Any:
        m, x = self.m, values[self.below(len(values))]
        shape = x.type.shape
        match self.below(7) if shape else 6:
            case 0 | 1:
                return m.transpose(x, axes=tuple(self.rng.permutation(len(shape)).tolist()))
            case 2:
                return m.reshape(x, newshape=self.shape_of(prod(shape)))
            case 3:
                some = self.rng.choice(len(shape), 1 + self.below(len(shape)), replace=False)
                reduced = (m.sum, m.max)[self.below(2)]
                axes = tuple(sorted(some.tolist()))
                return reduced(x, axis=axes, keepdims=bool(self.below(2)))
            case 4:
                return m.add(x, self.numbers(tuple(s if self.below(2) else 1 for s in shape)))
            case 5:
                others = [y for y in values if broadcasts(y.type.shape, shape)]
                return m.subtract(x, others[self.below(len(others))])
            case _:
                return m.exp(m.multiply(x, self.numbers(())))

    def result(self, values: list[Any]) -> Any:
        m = self.m
        parts: list[Any] = []
        for x in values:
            flat = m.reshape(x, newshape=(prod(x.type.shape),))
            parts.append(m.multiply(flat, self.numbers(flat.type.shape)))
        totals = [m.sum(part, axis=(0,), keepdims=True) for part in parts]
        return m.concatenate(*totals, axis=0)


def broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    same = len(shape) == len(other)
    return same and all(a == b or 1 in (a, b) for a, b in zip(shape, other))


def pixels_in_a_row(m: Any, x: Any) -> Any:
    """As many of images that lie across as of others, in another order."""
    n, h, w, c = x.type.shape
    return m.reshape(m.transpose(x, axes=(0, 3, 2, 1)), newshape=(n, c, h * w))


@pytest.mark.parametrize("seed", range(8))
def test_programs_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moved = 0
    for _ in range(PROGRAMS):
        n, h, w, c = (int(rng.choice(sizes)) for sizes in ((1, 2), (2, 4), (2, 3, 6), (4, 8)))

        def make(m: Any, x: Any, y: Any, kernel: Any) -> Any:
            draw = Draw(rng, m)
            values = [m("conv2d_valid", x, kernel), m("conv2d_valid", y, kernel)]
            if draw.below(2):
                values = [pixels_in_a_row(m, v) for v in values]
            for _ in range(4 + draw.below(7)):
                values.append(draw.value(values))
            return draw.result(values[-3:])

        images = tensor(n, h + 2, w + 2, 2), tensor(n, w + 2, h + 2, 2)
        program = lower_to_primitives(module(make, *images, tensor(3, 3, 2, c)))
        after = verify(sink_transposes(program))
        moved += after is not program
        args = [a * np.float32(0.1) for a in random_args(program)]
        expected, found = evaluate(program, *args), evaluate(after, *args)
        scale = 1e-3 * (1 + np.abs(np.nan_to_num(expected)).max())
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=scale, err_msg=str(program))
    assert moved > PROGRAMS // 4
