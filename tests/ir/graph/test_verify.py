"""The rules of the graph IR: each broken one has its message."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import module, tensor
from hypothesis import given, settings
from loopwright.ir.errors import InternalError
from loopwright.ir.graph.nodes import (
    Binding,
    Block,
    Call,
    Constant,
    For,
    Function,
    GlobalVar,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
    While,
)
from loopwright.ir.graph.types import FuncType, TupleType
from loopwright.ir.graph.verify import verify
from loopwright.ir.ops import get
from random_graphs import random_modules

VECTOR = tensor(4)
X = Var("x", VECTOR)
Y = Var("y", VECTOR)
EXP = Call(get("exp"), (X,))


def fn(*bindings: Binding, result=None) -> Function:
    return Function((X,), Block(bindings, result or bindings[-1].var))


@settings(max_examples=30)
@given(random_modules())
def test_what_the_builder_makes_is_valid(program: Module) -> None:
    assert verify(program) is program


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fn(result=Y), "%y is used unbound"),
        (fn(Binding(X, EXP)), "%x is bound twice"),
        (
            fn(Binding(Y, Call(get("exp"), (Y,)))),
            "%y is used unbound",
        ),
        (
            fn(Binding(Var("y", tensor(5)), EXP)),
            "%y is said to be Tensor[(5), float32], its value is Tensor[(4), float32]",
        ),
        (
            fn(Binding(Y, Call(get("exp"), (X,), {"speed": 3}))),
            "exp has no attribute speed (it has: none)",
        ),
        (
            fn(Binding(Y, Call(get("sum"), (X,), {}))),
            "the attributes of sum are not complete",
        ),
        (
            fn(Binding(Y, Call(GlobalVar("f", FuncType((VECTOR,), VECTOR)), (X,)))),
            "there is no function @f",
        ),
        (fn(Binding(Y, Call(X, (X,)))), "x is called but has type Tensor[(4), float32]"),
        (fn(Binding(Y, TupleGetItem(X, 0))), "Tensor[(4), float32] has no field 0"),
        (
            fn(Binding(Y, If(X, Block((), X), Block((), X)))),
            "a condition is a bool scalar, this is Tensor[(4), float32]",
        ),
        (
            fn(
                Binding(
                    Y,
                    If(
                        Constant(np.array(True)),
                        Block((), X),
                        Block((), Constant(np.array(0, "float32"))),
                    ),
                )
            ),
            "the branches differ: Tensor[(4), float32] and Tensor[(), float32]",
        ),
    ],
)
def test_broken_rules(function: Function, message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(function)
    assert caught.value.message == f"fn is not a valid function: {message}"


def test_variables_of_a_branch_are_not_seen_outside() -> None:
    inner = Var("t", VECTOR)
    branch = If(Constant(np.array(True)), Block((Binding(inner, EXP),), inner), Block((), X))
    with pytest.raises(InternalError, match="%t is used before it is bound or out of its scope"):
        verify(fn(Binding(Y, branch), result=inner))


N = Var("n", tensor(dtype="int64"))
SCALAR = Constant(np.array(3))
TRUE = Constant(np.array(True))


def loop(**changes: object) -> Binding:
    """A valid While that carries %n from 3 on, with changes."""
    parts = {"params": (N,), "initial": (SCALAR,), "condition": Block((), TRUE)}
    carry = Var("carry", TupleType((N.type,)))
    body = Block((Binding(carry, Tuple((N,))),), carry)
    value = While(**(parts | {"body": body} | changes))
    return Binding(Var("y", TupleType(tuple(p.type for p in value.params))), value)


def count(**changes: object) -> Binding:
    """A valid For without carry, with changes."""
    nothing = Var("nothing", TupleType(()))
    body = Block((Binding(nothing, Tuple(())),), nothing)
    value = For(
        **({"index": N, "extent": SCALAR, "params": (), "initial": (), "body": body} | changes)
    )
    return Binding(Var("y", TupleType(())), value)


def test_loops_are_valid() -> None:
    verify(fn(loop()))
    verify(fn(count()))


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (loop(initial=(X,)), "and these begin as (Tensor[(4), float32],)"),
        (loop(initial=()), "and these begin as ()"),
        (loop(initial=(N,)), "%n is used unbound"),
        (loop(body=Block((), N)), "and these become Tensor[(), int64]"),
        (loop(params=(X,), initial=(X,)), "%x is bound twice"),
        (loop(condition=Block((), N)), "a condition is a bool scalar, not Tensor[(), int64]"),
        (count(extent=TRUE), "a loop counts in int64, not Tensor[(), bool]"),
        (count(index=Y), "a loop counts in int64, not Tensor[(4), float32]"),
    ],
)
def test_broken_rules_of_loops(binding: Binding, message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(fn(binding))
    assert caught.value.message.endswith(message)


def test_variables_of_a_loop_are_not_seen_outside() -> None:
    with pytest.raises(InternalError, match="%n is used before it is bound or out of its scope"):
        verify(fn(loop(), result=N))


def test_signatures_of_global_functions() -> None:
    wrong = GlobalVar("f", FuncType((VECTOR,), tensor(3)))
    program = Module(
        {"f": fn(result=X), "main": fn(Binding(Var("y", tensor(3)), Call(wrong, (X,))))}
    )
    with pytest.raises(InternalError, match=r"@f is fn \(.*\) -> Tensor\[\(4\), float32\], not"):
        verify(program)


def test_error_shows_the_text_around_the_place() -> None:
    def make(m, x):
        for _ in range(50):
            x = m.exp(x)
        return x

    good = module(make, VECTOR).main
    bindings = list(good.body.bindings)
    bindings[30] = Binding(bindings[30].var, Call(get("exp"), (Y,)))
    with pytest.raises(InternalError) as caught:
        verify(Function(good.params, Block(tuple(bindings), good.body.result)))
    notes = caught.value.notes
    assert len(notes) == 25
    (marked,) = [line for line in notes if "<--" in line]
    assert marked == "  %30 = exp(%y);" + " " * 33 + "/* <-- %y is used unbound */"
