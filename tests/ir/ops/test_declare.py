"""Declarations of operators: what is derived from a short one, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from loopwright.codegen.emit.scalars import ScalarEmitter, literal
from loopwright.codegen.llvm.writer import FunctionWriter
from loopwright.codegen.target import Target
from loopwright.ir.dtype import FLOAT32, INT32
from loopwright.ir.errors import InternalError, LoopwrightTypeError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.compose import F
from loopwright.ir.graph.operator import OPERATORS, Pattern, register
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop import scalar
from loopwright.ir.ops import all_operators, elementwise, get
from loopwright.ir.ops.declare import attr, composite, primitive
from loopwright.tracer.nn.apply import declared
from operators import array_type, assert_agree, evaluate_operator, samples_of


@pytest.fixture(autouse=True)
def _operators() -> Iterator[None]:
    """The table of operators as it was before the test."""
    before = dict(OPERATORS)
    yield
    OPERATORS.clear()
    OPERATORS.update(before)


def softsign():
    @composite("nn.softsign")
    def declared(x):
        """x / (1 + |x|)."""
        return x / (F.abs(x) + 1)

    return declared


def test_all_but_the_meaning_of_an_elementwise_composite_is_derived() -> None:
    op = softsign()
    assert (op.params, op.attrs, op.pattern) == (("x",), (), Pattern.ELEMENTWISE)
    x = TensorType((2, 3), FLOAT32)
    assert op.infer((x,), {}) == x
    for sample in samples_of(op):
        expected = op.reference(sample.args, {})
        assert op.infer(tuple(array_type(a) for a in sample.args), {}) == array_type(expected)
        assert_agree(evaluate_operator(op, sample.args, {}), expected, sample.args)
    assert op.doc.startswith("x / (1 + |x|).\n\n``x`` of any shape; ")
    with pytest.raises(LoopwrightTypeError, match=r"^nn.softsign: needs a float, not int32\[3\]"):
        op.infer((TensorType((3,), INT32),), {})


def test_function_of_users_is_made_from_the_declaration() -> None:
    function = declared(softsign())
    assert function.__name__ == "softsign"
    np.testing.assert_allclose(function(np.float32([-1, 0, 3])), [-0.5, 0, 0.75])
    with pytest.raises(LoopwrightTypeError, match=r"nn.softsign: missing a required argument: 'x'"):
        function()


def test_elementwise_composites_consist_of_elementwise_operators() -> None:
    for op in all_operators().values():
        if op.decompose is None or op.pattern != Pattern.ELEMENTWISE:
            continue
        builder = Builder()
        x = builder.param("x", TensorType((2, 3), FLOAT32))
        op.decompose(builder, (x,), op.complete_attrs({}))
        parts = [b.value.op for b in builder.bindings]
        assert all(p.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST) for p in parts), op


def refused(declare) -> str:
    with pytest.raises(InternalError) as error:
        declare()
    return str(error.value)


def test_incomplete_operators_are_refused() -> None:
    exp = replace(get("exp"), name="zzz", doc="A.\n\n    zzz(%x)")

    def message(**wrong):
        return refused(lambda: register(replace(exp, **wrong)))

    assert message(name="exp") == "operator exp: another operator has this name"
    assert message(doc="") == (
        "operator zzz: the documentation does not begin with a sentence, such as 'Sum.'"
    )
    assert message(doc="Sum.\n\nNo example.") == (
        "operator zzz: the documentation has no example that calls zzz(...)"
    )
    assert message(compute=None) == (
        "operator zzz: exactly one of a tensor expression and a decomposition gives its meaning"
    )
    assert message(samples=None) == "operator zzz: samples is missing"
    assert message(reference=None) == "operator zzz: reference is missing"
    nothing = replace(exp, samples=lambda rng: [])
    assert refused(lambda: samples_of(nothing)) == "operator zzz: there is no sample"


def test_wrong_signatures_are_refused() -> None:
    def positional():
        @composite("zzz")
        def declared(x, axis=1):
            """A."""

    def undocumented():
        @composite("zzz")
        def declared(x, *, axis=1):
            """A."""

    assert refused(positional) == (
        "operator zzz: the parameter axis has a default, so it is an attribute; "
        "attributes are keyword-only: put * in front"
    )
    assert refused(undocumented) == "operator zzz: the attribute axis has no documentation"


def test_attributes_are_read_off_the_signature() -> None:
    @primitive(
        "zzz",
        Pattern.INJECTIVE,
        reference=lambda x, axis: np.flip(x, axis),
        samples=lambda rng: [],
    )
    def declared(out, x, *, axis: int = attr("the axis", -1)):
        """Reversal.

        zzz(%x)
        """
        return lambda *i: x(*i)

    (axis,) = declared.attrs
    assert (axis.name, axis.doc, axis.default, axis.kind) == ("axis", "the axis", -1, "int")
    assert declared.params == ("x",)


def test_scalar_without_text_is_refused() -> None:
    row = scalar.ScalarOp("softsign", 1, lambda x: x, "f")
    assert refused(lambda: elementwise._declare(row)) == (
        "operator softsign: the documentation does not begin with a sentence, such as 'Sum.'"
    )


def test_scalar_without_code_is_refused_in_one_sentence(monkeypatch) -> None:
    row = scalar.ScalarOp("softsign", 1, lambda x: x, "f", "x / (1 + |x|).")
    monkeypatch.setitem(scalar.SCALAR_OPS, "softsign", row)
    emitter = ScalarEmitter(FunctionWriter("f", ""), Target.host(), {})
    one = literal(1.0, FLOAT32)
    assert refused(lambda: emitter.apply("softsign", [one], [FLOAT32], FLOAT32)) == (
        "scalar operator softsign has no code for float32: it needs a composition in its row of "
        "ir/loop/scalar.py, or instructions in codegen/emit/scalars.py"
    )
