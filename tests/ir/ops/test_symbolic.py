"""Samples with their sizes replaced by symbols: what the type rule accepts is computed right."""

import numpy as np
import pytest
from loopwright.ir.dims import symbol
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.ops import Pattern, all_operators
from operators import Evaluated, array_type, assert_agree, operator_prim, samples_of

OPERATORS = all_operators()
# Operators without operands, and those whose attributes must name the symbols.
WITHOUT_SYMBOLS = {"full", "iota", "arange", "broadcast_to", "stage.map", "stage.reduce"}
# Loops of statements have constant extents.
WITHOUT_SYMBOLS |= {name for name, op in OPERATORS.items() if op.pattern == Pattern.OPAQUE}


def symbolic(type):
    """Every size but 0 and 1 as a symbol; equal sizes get the same one."""
    sizes = tuple(symbol(f"s{size}") if size > 1 else size for size in type.shape)
    return TensorType(sizes, type.dtype)


def accepted(op):
    """Samples that the type rule takes with symbolic sizes, and their types."""
    for sample in samples_of(op):
        types = [symbolic(array_type(a)) for a in sample.args]
        if all(isinstance(size, int) for t in types for size in t.shape):
            continue
        attrs = op.complete_attrs(sample.attrs)
        try:
            yield sample, types, attrs, op.infer(tuple(types), attrs)
        except LoopwrightError:
            continue


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in WITHOUT_SYMBOLS])
def test_symbolic_sizes_are_computed(name):
    op = OPERATORS[name]
    found = list(accepted(op))
    assert found, "no sample is accepted with symbolic sizes"
    for sample, types, attrs, result in found:
        if op.compute is None:
            builder = Builder()
            params = [builder.param(f"x{n}", t) for n, t in enumerate(types)]
            assert op.decompose(builder, params, attrs).type == result
            continue
        expected = op.reference(sample.args, attrs)
        prim = operator_prim(op, types, attrs)
        value = evaluate_prim(prim, {f"x{n}": a for n, a in enumerate(sample.args)})["out"]
        reduces = prim.stages[0].combiner is not None
        length = max(1, int(np.prod([a.size for a in sample.args]))) if reduces else 0
        assert_agree(Evaluated(value, length), expected, sample.args)
