"""Samples with their sizes replaced by symbols: what the type rule accepts is computed right."""

import itertools

import pytest
from loopwright.ir.dims import size
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.requirements import assuming, collecting
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.ops import all_operators
from loopwright.ir.traits import Trait
from operators import Evaluated, array_type, assert_agree, operator_prim, samples_of

OPERATORS = all_operators()
# Operators without operands, and those whose attributes must name the symbols.
WITHOUT_SYMBOLS = {"full", "empty", "iota", "arange", "broadcast_to"}
WITHOUT_SYMBOLS |= {"stage.map", "stage.reduce"}
# Their bodies are unrolled for a constant number of elements.
WITHOUT_SYMBOLS |= {"search_few", "random", "set_size", "sort_columns"}
# Groups of weights are of constant number.
WITHOUT_SYMBOLS |= {"matmul_codes", "nn.matmul_nbits"}


def symbolic(type, axes):
    """Every size but 0 and 1 of the first ``axes`` as a symbol; equal sizes get the same one."""
    first = tuple(size(f"s{n}", 0, 5000) if n > 1 else n for n in type.shape[:axes])
    return TensorType((*first, *type.shape[axes:]), type.dtype)


def accepted(op):
    """Samples that the type rule takes with symbolic sizes, and their types."""
    for sample, axes in itertools.product(samples_of(op), (99, 1)):
        types = [symbolic(array_type(a), axes) for a in sample.args]
        if all(isinstance(size, int) for t in types for size in t.shape):
            continue
        attrs = op.complete_attrs(sample.attrs)
        try:
            with collecting(demands=True) as noted:
                result = op.infer(tuple(types), attrs)
            yield sample, types, attrs, result, noted
        except LoopwrightError:
            continue


def computed(op, args, types, attrs, result, fewer):
    """The value of an operator, and the number of terms of its sums; if there are ``fewer`` sizes
    than symbols, types may say so in two ways."""
    length = max(1, *(a.size for a in args))
    if op.compute is None:
        builder = Builder()
        params = [builder.param(f"x{n}", t) for n, t in enumerate(types)]
        made = op.decompose(builder, params, attrs)
        assert made.type == result or fewer
        return Evaluated(evaluate(builder.function(made), *args), length)
    prim = operator_prim(op, types, attrs)
    value = evaluate_prim(prim, {f"x{n}": a for n, a in enumerate(args)})["out"]
    reduces = not prim.stages or prim.stages[0].combiner is not None
    return Evaluated(value, length if reduces else 0)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in WITHOUT_SYMBOLS])
def test_symbolic_sizes_are_computed(name):
    op = OPERATORS[name]
    found = list(accepted(op))
    assert found, "no sample is accepted with symbolic sizes"
    for sample, types, attrs, result, noted in found:
        sizes = {f"s{n}": n for a in sample.args for n in a.shape}
        fits = all(needed.holds(sizes) for needed in noted)
        if fits and not op.traits & (Trait.LIBRARY | Trait.BYTES):
            with assuming(noted):
                value = computed(op, sample.args, types, attrs, result, bool(noted))
            assert_agree(value, op.reference(sample.args, attrs), sample.args)
