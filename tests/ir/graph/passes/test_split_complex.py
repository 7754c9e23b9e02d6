"""Random programs with complex values: the same before and after the pass, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import structural_equal
from loopwright.driver.pipeline import build
from loopwright.ir.dtype import COMPLEX64, FLOAT32, INT64
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Atom, Constant, Function, GlobalVar, Module, Var
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.split_complex import split_complex
from loopwright.ir.graph.printer import as_text, constants_of
from loopwright.ir.graph.types import TensorType
from loopwright.ir.graph.verify import verify
from loopwright.ir.ops import get

SHAPE = (3, 4)
COMPLEX, REAL = TensorType(SHAPE, COMPLEX64), TensorType(SHAPE, FLOAT32)
BINARY = ("add", "subtract", "multiply", "where")
UNARY = ("negative", "conj", "sqrt", "exp", "reverse", "transpose")
INTO_REAL = ("real", "imag", "abs")


class Drawing:
    """Draws programs over complex and real matrices of one shape; numbers stay of order one."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.functions: dict[str, Function] = {}

    def pick(self, pool: list[Atom], type: TensorType) -> Atom:
        fit = [a for a in pool if a.type == type]
        return fit[self.rng.integers(len(fit))]

    def constant(self) -> Constant:
        drawn = self.rng.normal(size=(2, *SHAPE))
        return Constant((drawn[0] + 1j * drawn[1]).astype(np.complex64), f"c{len(drawn)}")

    def statements(self, b: Builder, pool: list[Atom], count: int, depth: int) -> None:
        for _ in range(count):
            kind = self.rng.integers(9 if depth else 6)
            x, y = self.pick(pool, COMPLEX), self.pick(pool, COMPLEX)
            if kind < 2:
                pool.append(self.tamed(b, self.binary(b, x, y, pool)))
            elif kind == 2:
                pool.append(self.tamed(b, self.unary(b, x)))
            elif kind == 3:
                name = INTO_REAL[self.rng.integers(len(INTO_REAL))]
                pool.append(b.emit(get(name), (x,)))
            elif kind == 4:
                real = self.pick(pool, REAL)
                pool.append(b.emit(get("complex"), (real, self.pick(pool, REAL))))
            elif kind == 5:
                pool.append(
                    b.emit(get("multiply"), (x, Constant(np.array(0.5 - 0.5j, np.complex64))))
                )
            else:
                pool += (self.branch, self.loop, self.call)[kind - 6](b, pool, depth - 1)

    def tamed(self, b: Builder, x: Atom) -> Atom:
        """``x`` with parts in [-2, 2]."""
        limits = {"a_min": -2.0, "a_max": 2.0}
        parts = [b.emit(get(part), (x,)) for part in ("real", "imag")]
        return b.emit(get("complex"), [b.emit(get("clip"), (p,), limits) for p in parts])

    def binary(self, b: Builder, x: Atom, y: Atom, pool: list[Atom]) -> Atom:
        name = BINARY[self.rng.integers(len(BINARY))]
        if name == "where":
            zero = Constant(np.zeros((), np.float32))
            condition = b.emit(get("greater"), (self.pick(pool, REAL), zero))
            return b.emit(get("where"), (condition, x, y))
        return b.emit(get(name), (x, y))

    def unary(self, b: Builder, x: Atom) -> Atom:
        name = UNARY[self.rng.integers(len(UNARY))]
        if name == "reverse":
            return b.emit(get(name), (x,), {"axis": (1,)})
        if name == "transpose":  # and back to the shape
            return b.emit(get("reshape"), (b.emit(get(name), (x,)),), {"newshape": SHAPE})
        return b.emit(get(name), (x,))

    def branch(self, b: Builder, pool: list[Atom], depth: int) -> list[Atom]:
        total = b.emit(get("sum"), (self.pick(pool, REAL),))
        condition = b.emit(get("greater"), (total, Constant(np.zeros((), np.float32))))
        blocks = []
        for _ in range(2):
            inner, values = Builder(), list(pool)
            self.statements(inner, values, 2, depth)
            fields = (self.pick(values, COMPLEX), self.pick(values, REAL))
            blocks.append(inner.block(inner.make_tuple(fields)))
        result = b.cond(condition, *blocks)
        return [b.get_item(result, n) for n in range(2)]

    def loop(self, b: Builder, pool: list[Atom], depth: int) -> list[Atom]:
        index, z, r = Var("i", TensorType((), INT64)), Var("z", COMPLEX), Var("r", REAL)
        inner, values = Builder(), [*pool, z, r]
        self.statements(inner, values, 2, depth)
        fields = (self.pick([*values[-3:], z], COMPLEX), self.pick(values, REAL))
        extent = Constant(np.array(self.rng.integers(1, 4)))
        initial = (self.pick(pool, COMPLEX), self.pick(pool, REAL))
        body = inner.block(inner.make_tuple(fields))
        result = b.for_loop(index, extent, (z, r), initial, body)
        return [b.get_item(result, n) for n in range(2)]

    def call(self, b: Builder, pool: list[Atom], depth: int) -> list[Atom]:
        inner = Builder()
        values: list[Atom] = [inner.param("z", COMPLEX), inner.param("r", REAL)]
        self.statements(inner, values, 2, depth)
        function = inner.function(self.pick(values, COMPLEX))
        name = f"f{len(self.functions)}"
        self.functions[name] = function
        args = (self.pick(pool, COMPLEX), self.pick(pool, REAL))
        return [b.emit(GlobalVar(name, function.type), args)]

    def module(self) -> Module:
        b = Builder()
        pool: list[Atom] = [b.param("x", COMPLEX), b.param("y", REAL), self.constant()]
        self.statements(b, pool, 5, 2)
        results = [self.pick(pool[-4:] + pool[:1], COMPLEX), self.pick(pool, REAL)]
        return Module({"main": b.function(b.make_tuple(results)), **self.functions})


def assert_near(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(9))
def test_random_programs(seed: int) -> None:
    module = verify(Drawing(seed).module())
    again = parse_module(as_text(module), constants=constants_of(module))
    assert structural_equal(again, module)
    split = verify(split_complex(module))
    assert split_complex(split) is split
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=SHAPE) + 1j * rng.normal(size=SHAPE)).astype(np.complex64)
    y = rng.normal(size=SHAPE).astype(np.float32)
    wanted = evaluate(module, x, y)
    assert_near(evaluate(split, x, y), wanted)
    if seed < 3:
        assert_near(build(module).call([x, y]), wanted)
