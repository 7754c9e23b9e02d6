"""Every operator, every sample: type rule and definition against the NumPy reference."""

import inspect

import numpy as np
import pytest
from loopwright.ir.dtype import dtype_of
from loopwright.ir.graph.operator import Pattern
from loopwright.ir.graph.parser import parse_function
from loopwright.ir.graph.printer import as_text
from loopwright.ir.graph.types import TensorType, TupleType
from loopwright.ir.ops import all_operators
from loopwright.ir.traits import Trait
from operators import array_type, assert_agree, evaluate_operator, operator_prim, samples_of

OPERATORS = all_operators()


def type_of(value):
    if isinstance(value, tuple):
        return TupleType(tuple(type_of(v) for v in value))
    assert isinstance(value, np.ndarray), f"a reference gives arrays, not {type(value)}"
    return array_type(value)


@pytest.mark.parametrize("name", OPERATORS)
def test_samples_agree_with_the_reference(name):
    op = OPERATORS[name]
    samples = samples_of(op)
    assert samples
    for sample in samples:
        attrs = op.complete_attrs(sample.attrs)
        hash(tuple(attrs.values()))
        expected = op.reference(sample.args, attrs)
        inferred = op.infer(tuple(array_type(a) for a in sample.args), attrs)
        assert inferred == type_of(expected), f"{sample}"
        actual = evaluate_operator(op, sample.args, attrs)
        assert_agree(actual, expected, sample.args)


def moves_elements(op, sample):
    """True if all elements of the result are floats of the operands, or constants; None if there
    are no floats that could be."""
    attrs = op.complete_attrs(sample.attrs)
    result = op.reference(sample.args, attrs)
    parts = result if isinstance(result, tuple) else (result,)
    floats = [a for a in sample.args if a.dtype == parts[0].dtype and a.dtype.kind == "f"]
    if not floats or attrs.get("reduction", "none") != "none":
        return None
    constants = [v for v in attrs.values() if isinstance(v, int | float)]
    known = np.concatenate([np.asarray([0, *constants], floats[0].dtype), *map(np.ravel, floats)])
    bits = f"i{known.itemsize}"
    return all(np.isin(np.ravel(p).view(bits), known.view(bits)).all() for p in parts)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_move_elements_say_so(name):
    """Then halves keep their bits; the operands of others are widened to float32 and back."""
    op = OPERATORS[name]
    says = Trait.MOVES in op.traits
    if says or op.pattern == Pattern.INJECTIVE:
        moved = [m for s in samples_of(op) if (m := moves_elements(op, s)) is not None]
        assert not moved or all(moved) == says


@pytest.mark.parametrize("name", ["cast", "full", "index_update", "nn.scatter_nd", "where"])
def test_what_moves_beside_injective_operators(name):
    assert Trait.MOVES in OPERATORS[name].traits


def _with_trait(trait):
    return [name for name, op in OPERATORS.items() if trait in op.traits]


@pytest.mark.parametrize("name", _with_trait(Trait.PICKS))
def test_operators_that_pick_take_elements_of_the_first_operand(name):
    op = OPERATORS[name]
    for sample in samples_of(op):
        first = sample.args[0]
        distinct = np.arange(1, first.size + 1).reshape(first.shape)
        picked = op.reference([distinct, *sample.args[1:]], op.complete_attrs(sample.attrs))
        assert np.isin(picked, distinct).all()
        if Trait.REARRANGES in op.traits:
            np.testing.assert_array_equal(np.sort(picked, axis=None), distinct.ravel())


def _floats_of(op):
    """Yields the attributes of the samples of floats, and their operands in float64."""
    for sample in samples_of(op):
        if all(a.dtype.kind == "f" and (abs(a) < 1e9).all() for a in sample.args):
            yield op.complete_attrs(sample.attrs), [a.astype(np.float64) for a in sample.args]


@pytest.mark.parametrize("name", _with_trait(Trait.LINEAR))
def test_linear_operators_are(name):
    op = OPERATORS[name]
    for attrs, args in _floats_of(op):
        others = [np.cos(a) for a in args]
        both = op.reference([2 * a - 3 * b for a, b in zip(args, others, strict=True)], attrs)
        apart = 2 * op.reference(args, attrs) - 3 * op.reference(others, attrs)
        np.testing.assert_allclose(both, apart, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", _with_trait(Trait.MULTILINEAR))
def test_products_are_linear_in_each_operand(name):
    op = OPERATORS[name]
    for attrs, args in _floats_of(op):
        for n, operand in enumerate(args):

            def of(value, n=n, args=args, attrs=attrs):
                return op.reference([*args[:n], value, *args[n + 1 :]], attrs)

            other = np.cos(operand)
            apart = 2 * of(operand) - 3 * of(other)
            np.testing.assert_allclose(of(2 * operand - 3 * other), apart, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", _with_trait(Trait.PASSES_NAN))
def test_operators_that_pass_nan_do(name):
    op = OPERATORS[name]
    rest = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan], np.float32)
    nan = np.full_like(rest, np.nan)
    for n in range(len(op.params)):
        assert np.isnan(
            op.reference([nan if p == n else rest for p, _ in enumerate(op.params)], {})
        ).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_definition_is_complete(name):
    op = OPERATORS[name]
    assert op.name == name
    meanings = (op.compute is not None) + (op.decompose is not None)
    assert meanings == (Trait.LIBRARY not in op.traits)
    summary, _, body = op.doc.partition("\n")
    assert summary.endswith(".") and f"{name}(" in body, "a sentence, and an example of its use"
    assert inspect.cleandoc(op.doc).isascii()
    assert all(len(line) <= 100 for line in op.doc.splitlines())
    for attr in op.attrs:
        assert attr.doc


@pytest.mark.parametrize("name", OPERATORS)
def test_example_of_the_documentation_is_graph_ir(name):
    lines = [line for line in OPERATORS[name].doc.splitlines() if line.startswith("    ")]
    example = inspect.cleandoc("\n".join(lines))
    assert as_text(parse_function(example)) == example


def test_samples_cover_sizes_and_dtypes():
    dtypes, sizes = set(), set()
    for op in OPERATORS.values():
        own = [array_type(a) for s in samples_of(op) for a in s.args]
        dtypes |= {t.dtype.name for t in own}
        if op.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST) and own:
            assert any(t.rank > 1 for t in own), op.name
        sizes |= {s for t in own for s in t.shape}
    assert len(dtypes) == 13
    assert {0, 1, 3, 5, 7} <= sizes


def test_computes_print_as_tensor_expressions():
    def text(name, *shapes, dtype="float32", **attrs):
        types = [TensorType(s, dtype_of(dtype)) for s in shapes]
        return str(operator_prim(OPERATORS[name], types, attrs)).splitlines()[1].strip()

    assert text("add", (3, 1), (4,)) == "out[i0, i1] = x0[i0, 0] + x1[i1]"
    assert text("transpose", (3, 4)) == "out[i0, i1] = x0[i1, i0]"
    assert text("reshape", (6, 4), newshape=(3, 2, 4)) == "out[i0, i1, i2] = x0[2 * i0 + i1, i2]"
    assert (
        text("nn.matmul", (2, 8, 3), (3, 4))
        == "out[i0, i1, i2] = sum(ri0: 3) x0[i0, i1, ri0] * x1[ri0, i2]"
    )
    assert text("sum", (5, 6), axis=0) == "out[i0] = sum(ri0: 5) x0[ri0, i0]"
