"""Small graph programs for tests: build them by name, compare them before and after a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import loopwright.ir.ops  # noqa: F401  (fills the table of operators)
import numpy as np
from loopwright.ir.dims import evaluate as evaluate_dim
from loopwright.ir.dtype import DTYPES
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Atom, Constant, Function, Module, Var
from loopwright.ir.graph.parser import parse_function, parse_module
from loopwright.ir.graph.printer import constants_of
from loopwright.ir.graph.structural import canonical_text
from loopwright.ir.graph.types import TensorType, TupleType, Type
from loopwright.ir.graph.verify import verify
from loopwright.ir.ops import get


def structural_equal(left: Module | Function, right: Module | Function) -> bool:
    """True if the two are the same program but for the names of variables and constants."""
    return canonical_text(left) == canonical_text(right)


def tensor(*shape: Any, dtype: str = "float32") -> TensorType:
    return TensorType(shape, DTYPES[dtype])


def scalar(value: Any, dtype: str = "float32") -> Constant:
    return Constant(np.array(value, dtype))


class Maker:
    """``m.exp(x)`` and ``m("nn.matmul", x, w)`` emit; attributes are keywords."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __call__(self, name: str, *args: Atom, **attrs: Any) -> Var:
        return self.builder.emit(get(name), args, attrs)

    def __getattr__(self, name: str) -> Callable[..., Var]:
        return lambda *args, **attrs: self(name, *args, **attrs)


def function(make: Callable[..., Atom | Sequence[Atom]], *types: Type) -> Function:
    """The function whose body ``make(maker, *params)`` emits; a sequence becomes a tuple."""
    builder = Builder()
    params = [builder.param(f"x{i}", t) for i, t in enumerate(types)]
    result = make(Maker(builder), *params)
    if isinstance(result, list | tuple):
        result = builder.make_tuple(result)
    return builder.function(result)


def module(make: Callable[..., Atom | Sequence[Atom]], *types: Type) -> Module:
    return Module({"main": function(make, *types)})


def random_value(rng: np.random.Generator, kind: Type, sizes: dict[str, int]) -> Any:
    """A value of the type: moderate numbers, small integers."""
    if isinstance(kind, TupleType):
        return tuple(random_value(rng, f, sizes) for f in kind.fields)
    assert isinstance(kind, TensorType)
    shape = tuple(evaluate_dim(s, sizes) for s in kind.shape)
    if kind.dtype.is_float:
        return rng.uniform(-2, 2, shape).astype(kind.dtype.numpy)
    if kind.dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 5, shape).astype(kind.dtype.numpy)


def random_args(program: Module | Function, seed: int = 0, **sizes: int) -> list[Any]:
    main = program.main if isinstance(program, Module) else program
    rng = np.random.default_rng(seed)
    return [random_value(rng, p.type, sizes) for p in main.params]


def assert_same_value(found: Any, expected: Any, rtol: float = 1e-5) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_value(one, other, rtol)
        return
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def parse(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Module:
    """A module from its text; ``fn (...) { ... }`` is the ``main`` of one."""
    if text.strip().startswith("fn"):
        return Module({"main": parse_function(text, constants=constants)})
    return parse_module(text, constants=constants)


def check_pass(
    step: Callable[[Module], Module],
    *,
    before: str,
    after: str,
    constants: Mapping[str, np.ndarray] | None = None,
    rtol: float = 1e-6,
) -> None:
    """``step`` turns one text into the other, stops there, and keeps the meaning.

    ``constants`` are the arrays behind ``meta[name]`` in both texts.
    """
    program, expected = verify(parse(before, constants)), verify(parse(after, constants))
    result = verify(step(program))
    if not structural_equal(result, expected):
        raise AssertionError(f"expected\n{expected}\n\nfound\n{result}")
    assert step(result) is result, "a second run changed the module again"
    assert step(expected) is expected, "the pass changes its own result after a round trip"
    again = parse_module(str(result), constants=constants_of(result))
    assert structural_equal(again, result), "the result does not print and parse back"
    if "main" in program.functions:
        sizes = {s.name: max(s.low, min(5, s.high)) for s in program.main.sizes.values()}
        args = random_args(program, **sizes)
        assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol)
