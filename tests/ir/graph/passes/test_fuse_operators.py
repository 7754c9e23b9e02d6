"""Which operators end in one kernel."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, module, random_args, scalar, tensor
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Constant, Function, Module
from loopwright.ir.graph.operator import Pattern
from loopwright.ir.graph.passes.fuse_operators import fuse_operators
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.verify import verify


def fused(program: Module, *, lower: bool = False) -> Module:
    """``program`` fused, checked to be valid, unchanged in meaning and stable."""
    result = program
    for step in default_pipeline() if lower else [fuse_operators]:
        result = verify(step(result))
    assert fuse_operators(result) is result
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
    return result


def calls(program: Module) -> list[str]:
    """What main calls, in order."""
    values = [b.value for b in program.main.body.bindings]
    return [v.op.name for v in values if isinstance(v, Call)]


def test_softmax_is_one_kernel() -> None:
    def make(m, x):
        top = m.max(x, axis=(1,), keepdims=True)
        e = m.exp(m.subtract(x, top))
        return m.divide(e, m.sum(e, axis=(1,), keepdims=True))

    assert calls(fused(module(make, tensor(8, 16)))) == ["max_subtract_exp_sum_divide"]


@pytest.mark.parametrize(
    "shape, axis, kernels",
    [
        ((8, 16), 1, ["max_subtract_exp_sum"]),
        ((16, 32), 0, ["max_subtract_exp", "sum"]),  # no row lies in one piece
        ((1, 20_000), 1, ["max", "subtract_exp", "sum"]),  # one row is no work for threads
    ],
)
def test_rows_leave_together_with_what_they_are_reduced_to(shape, axis, kernels) -> None:
    def make(m, x):
        e = m.exp(m.subtract(x, m.max(x, axis=(axis,), keepdims=True)))
        return e, m.sum(e, axis=(axis,), keepdims=True)

    assert calls(fused(module(make, tensor(*shape)))) == kernels


@pytest.mark.parametrize("reads, kernels", [(4, ["divide"]), (40, ["divide", "take"])])
def test_what_a_gather_reads_many_times_is_computed_once(reads: int, kernels: list[str]) -> None:
    def make(m, x, y, at):
        return m.take(m.divide(x, y), at, axis=0)

    program = module(make, tensor(4), tensor(4), tensor(reads, dtype="int64"))
    assert calls(fused(program)) == kernels


@pytest.mark.parametrize(
    "axes, size, reads, depth, kernels",
    [
        ((1, 2, 0), 4, 30, 2, ["transpose", "gather_nd"]),  # a pixel of channels-first images
        ((1, 2, 0), 3, 30, 2, ["transpose_gather_nd"]),  # of hardly any channels
        ((1, 2, 0), 4, 29, 2, ["transpose_gather_nd"]),  # not all elements
        ((1, 2, 0), 4, 120, 3, ["transpose_gather_nd"]),  # no rows
        ((1, 0, 2), 4, 30, 2, ["transpose_gather_nd"]),  # rows lie in one piece as it is
    ],
)
def test_rows_that_a_gather_reads_lie_in_one_piece(axes, size, reads, depth, kernels) -> None:
    def make(m, x, at):
        return m("nn.gather_nd", m.transpose(x, axes=axes), at)

    program = module(make, tensor(size, 5, 6), tensor(reads, depth, dtype="int64"))
    assert calls(fused(program)) == kernels


def test_softmax_over_long_lone_row_is_not_one_kernel() -> None:
    def make(m, x):
        e = m.exp(x)
        return m.divide(e, m.sum(e, axis=None, keepdims=True))

    assert calls(fused(module(make, tensor(1, 20_000)))) == ["exp", "sum", "divide"]


@pytest.mark.parametrize(
    "shape, axis, kernels",
    [
        ((4, 64, 32), 1, 1),
        ((4, 64, 15), 1, 4),  # lines too short for vectors across them
        ((513, 16), 0, 4),  # columns too long for the near caches
        ((4, 3, 16), (0, 2), 4),  # lines are reduced, too
    ],
)
def test_softmax_over_short_columns_is_one_kernel(shape, axis, kernels) -> None:
    axes = axis if isinstance(axis, tuple) else (axis,)

    def make(m, x):
        top = m.max(x, axis=axes, keepdims=True)
        e = m.exp(m.subtract(x, top))
        return m.divide(e, m.sum(e, axis=axes, keepdims=True))

    assert len(calls(fused(module(make, tensor(*shape))))) == kernels


def test_layer_norm_with_everything_around_it_is_one_kernel() -> None:
    def make(m, x, gamma, beta):
        x = m.tanh(x)
        mean = m.mean(x, axis=(1,), keepdims=True)
        variance = m.variance(x, axis=(1,), keepdims=True)
        scaled = m.divide(m.subtract(x, mean), m.sqrt(m.add(variance, scalar(1e-5))))
        return m.maximum(m.add(m.multiply(scaled, gamma), beta), scalar(0))

    program = fused(module(make, tensor(8, 16), tensor(16), tensor(16)), lower=True)
    assert len(calls(program)) == 1


def test_contraction_takes_what_follows_and_index_maps_in_front() -> None:
    def make(m, x, w, b):
        product = m("nn.matmul", x, m.transpose(w, axes=(1, 0)))
        return m.maximum(m.add(product, b), scalar(0))

    program = fused(module(make, tensor(8, 16), tensor(4, 16), tensor(4)))
    assert calls(program) == ["matmul_add_maximum"]
    group = program.functions["matmul_add_maximum"]
    assert isinstance(group, Function)
    assert group.attrs == {"primitive": True, "pattern": Pattern.CONTRACTION}
    assert [b.value.op.name for b in group.body.bindings] == [
        "transpose",
        "nn.matmul",
        "add",
        "maximum",
    ]


def test_contraction_takes_a_transpose_of_its_result() -> None:
    def make(m, x, w, b):
        product = m.maximum(m.add(m("nn.matmul", x, w), b), scalar(0))
        return m.transpose(product, axes=(1, 0))

    program = fused(module(make, tensor(8, 16), tensor(16, 4), tensor(4)))
    assert len(calls(program)) == 1

    def needed_itself(m, x, w):
        product = m("nn.matmul", x, w)
        return product, m.transpose(product, axes=(1, 0))

    program = fused(module(needed_itself, tensor(8, 16), tensor(16, 4)))
    assert len(calls(program)) == 2


@pytest.mark.parametrize(
    "steps, outputs, kernels",
    [
        ((1, 2), 64, ["strided_slice", "matmul"]),
        ((1, 2), 1, ["matmul"]),  # a copy would take as long as the product
        ((2, 1), 64, ["matmul"]),  # rows stay rows
    ],
)
def test_what_is_picked_from_rows_and_used_many_times_is_put_side_by_side(
    steps, outputs, kernels
) -> None:
    def make(m, x, w):
        picked = m.strided_slice(x, begin=(0, 0), end=(16, 32), strides=steps)
        return m("nn.matmul", picked, w)

    depth = 32 // steps[1]
    program = fused(module(make, tensor(16, 32), tensor(depth, outputs)))
    assert calls(program) == kernels


@pytest.mark.parametrize(
    "shape, axes, merged, outputs, kernels",
    [
        ((4, 8, 4, 8), (0, 2, 1, 3), (16, 64), 64, ["transpose_reshape", "matmul"]),
        ((4, 8, 4, 8), (0, 2, 1, 3), (16, 64), 1, ["matmul"]),  # a copy takes as long
        ((2, 4, 4, 8), (1, 0, 2, 3), (8, 4, 8), 64, ["matmul"]),  # only batches are merged
        ((64, 16), (1, 0), (16, 8, 8), 64, ["matmul"]),  # an axis is split
    ],
)
def test_axes_merged_for_a_product_are_computed_in_front_of_it(
    shape, axes, merged, outputs, kernels
) -> None:
    def make(m, x, w):
        return m("nn.matmul", m.reshape(m.transpose(x, axes=axes), newshape=merged), w)

    program = fused(module(make, tensor(*shape), tensor(*merged[:-2], merged[-1], outputs)))
    assert calls(program) == kernels


def test_arithmetic_in_front_of_a_contraction_stays_apart() -> None:
    program = fused(
        module(lambda m, x, w: m("nn.matmul", m.exp(x), w), tensor(8, 16), tensor(16, 4))
    )
    assert calls(program) == ["exp", "matmul"]


@pytest.mark.parametrize(
    "a, b, kernels",
    [
        ((8, 16), (16,), ["exp_matmul"]),
        ((8, 16), (16, 1), ["exp_matmul"]),
        ((3, 8, 16), (16,), ["exp_matmul"]),
        ((3, 8, 16), (3, 16, 1), ["exp_matmul"]),
        ((8, 16), (3, 16, 1), ["exp", "matmul"]),  # by three vectors: three times
        ((16,), (16, 4), ["exp", "matmul"]),  # the vector is used for every column
    ],
)
def test_what_a_product_uses_once_is_computed_on_the_way(a, b, kernels) -> None:
    program = module(lambda m, x, w: m("nn.matmul", m.exp(x), w), tensor(*a), tensor(*b))
    assert calls(fused(program)) == kernels
    turned = module(lambda m, x, w: m("nn.matmul", x, m.exp(w)), tensor(1, 16), tensor(16, 4))
    assert calls(fused(turned)) == ["exp_matmul"]


@pytest.mark.parametrize(
    "equation, shapes, once",
    [
        ("bij,bj->bi", ((2, 8, 16), (2, 16)), True),
        ("ij,j->i", ((8, 16), (16,)), True),
        ("ij,jk->k", ((4, 8), (8, 2)), False),
        ("ij,kj->ik", ((8, 16), (3, 16)), False),
    ],
)
def test_uses_in_a_contraction_are_counted_by_its_letters(equation, shapes, once) -> None:
    def make(m, x, y):
        return m.contract(m.exp(x), y, equation=equation)

    program = fused(module(make, *(tensor(*s) for s in shapes)))
    assert len(calls(program)) == (1 if once else 2)


def test_what_others_want_too_is_computed_before_a_product() -> None:
    def needed(m, x, v):
        e = m.exp(x)
        return e, m("nn.matmul", e, v)

    def twice(m, x, v):
        e = m.exp(x)
        return m("nn.matmul", e, v), m.sum(e, axis=(1,), keepdims=False)

    assert calls(fused(module(needed, tensor(8, 16), tensor(16)))) == ["exp", "matmul"]
    assert calls(fused(module(twice, tensor(8, 16), tensor(16)))) == ["exp", "matmul", "sum"]


def test_contraction_and_reduction_stay_apart() -> None:
    def make(m, x, w):
        return m.sum(m.exp(m("nn.matmul", x, w)), axis=(1,), keepdims=False)

    assert calls(fused(module(make, tensor(8, 16), tensor(16, 4)))) == ["matmul_exp", "sum"]


def test_reductions_over_different_axes_stay_apart() -> None:
    def make(m, x):
        return m.sum(m.max(x, axis=(1,), keepdims=True), axis=(0,), keepdims=True)

    assert calls(fused(module(make, tensor(8, 16)))) == ["max", "sum"]


def test_square_matrix_does_not_confuse_rows_with_columns() -> None:
    def make(m, x):
        total = m.sum(x, axis=(1,), keepdims=False)  # broadcasts along the wrong axis
        return m.subtract(x, total)

    assert len(calls(fused(module(make, tensor(8, 8))))) == 2


def test_value_needed_twice_is_written_once_and_not_read_again() -> None:
    def make(m, x, y):
        total = m.add(x, y)
        return total, m.exp(total)

    assert calls(fused(module(make, tensor(8), tensor(8)))) == ["add_exp"]


def test_residual_stream_and_its_norm_are_one_kernel() -> None:
    def make(m, x, y, w):
        total = m.add(x, y)
        normed = m.subtract(total, m.max(total, axis=(1,), keepdims=True))
        return m.add(total, m("nn.matmul", normed, w))

    program = fused(module(make, tensor(8, 4), tensor(8, 4), tensor(4, 4)))
    assert calls(program) == ["add_max_subtract", "matmul_add"]


def test_readers_of_one_array_are_one_kernel() -> None:
    assert calls(fused(module(lambda m, x: (m.sin(x), m.cos(x)), tensor(8)))) == ["sin_cos"]

    def moments(m, x):
        return m.mean(x, axis=(1,), keepdims=False), m.std(x, axis=(1,), keepdims=False)

    assert len(calls(fused(module(moments, tensor(8, 16)), lower=True))) == 1

    def two_layers(m, x, w, v):
        return m("nn.matmul", x, w), m("nn.matmul", x, v), m.exp(x)

    program = fused(module(two_layers, tensor(4, 4), tensor(4, 4), tensor(4, 4)))
    assert calls(program) == ["matmul", "matmul", "exp"]


def total_of_rows(m, matrices):
    total, *others = [m.sum(matrix, axis=(1,)) for matrix in matrices]
    for other in others:
        total = m.add(total, other)
    return total


def test_row_sums_of_products_do_not_wait_for_each_other() -> None:
    def make(m, x, *factors):
        return total_of_rows(m, (m("nn.matmul", x, f) for f in factors))

    program = fused(module(make, *[tensor(8, 8)] * 4))
    assert calls(program) == ["matmul", "sum"] * 2 + ["matmul", "sum_add_add"]


def test_row_sums_of_what_is_there_anyway_are_one_kernel() -> None:
    program = fused(module(lambda m, *x: total_of_rows(m, x), *[tensor(8, 8)] * 3))
    assert calls(program) == ["sum_sum_sum_add_add"]

    def make(m, x, *factors):
        return total_of_rows(m, [m("nn.matmul", x, f) for f in factors])

    program = fused(module(make, *[tensor(8, 8)] * 4))
    assert calls(program) == ["matmul"] * 3 + ["sum_sum_sum_add_add"]


def test_groups_never_form_a_circle() -> None:
    def make(m, x, w):
        a = m.exp(x)
        b = m("nn.matmul", a, w)
        return m.add(a, b), a  # a and the sum may not join: the matmul stands between

    program = fused(module(make, tensor(4, 4), tensor(4, 4)))
    assert calls(program) == ["exp", "matmul_add"]


def test_equal_groups_share_a_function() -> None:
    def make(m, x, w, v):
        return m.tanh(m("nn.matmul", m.tanh(m("nn.matmul", x, w)), v))

    types = tensor(4, 4), tensor(4, 4), tensor(4, 4)
    program = fused(module(make, *types))
    assert calls(program) == ["matmul_tanh", "matmul_tanh"]
    assert len(program.functions) == 2


def test_groups_with_different_scalars_do_not_share_a_function() -> None:
    def make(m, x, y):
        one = Constant(np.ones((1,), "float32"), "s")
        two = Constant(np.full((1,), 2, "float32"), "s")
        return m.add(x, one), m.add(y, two)

    assert len(fused(module(make, tensor(4), tensor(4))).functions) == 3


def test_big_constants_are_arguments_and_scalars_are_not() -> None:
    bias = Constant(np.arange(4, dtype="float32"), "bias")
    program = fused(
        module(lambda m, x: m.multiply(m.add(x, bias), scalar(2)), tensor(8, 4)),
    )
    (call,) = [b.value for b in program.main.body.bindings]
    assert isinstance(call, Call)
    assert call.args == (program.main.params[0], bias)


def test_reshape_of_an_array_stands_alone() -> None:
    def make(m, x, w):
        flat = m.reshape(m.exp(x), newshape=(4, 16))
        return m.maximum(m("nn.matmul", flat, w), scalar(0))

    program = fused(module(make, tensor(4, 4, 4), tensor(16, 4)))
    assert calls(program) == ["exp", "reshape", "matmul_maximum"]


def test_shared_index_map_is_copied_into_its_readers() -> None:
    def make(m, x, w):
        turned = m.transpose(x, axes=(1, 0))
        return m("nn.matmul", turned, w), m.exp(turned)

    assert calls(fused(module(make, tensor(16, 8), tensor(16, 4)))) == ["matmul", "exp"]


def test_costly_value_is_not_computed_again_for_every_row() -> None:
    def make(m, x, v):
        return m.multiply(x, m.exp(v)), m.multiply(x, m.negative(v))

    program = fused(module(make, tensor(8, 16), tensor(16)))
    assert calls(program) == ["exp", "multiply_negative_multiply"]


def test_at_most_64_operators_in_a_group() -> None:
    def make(m, x):
        for _ in range(130):
            x = m.sin(x)
        return x

    program = fused(module(make, tensor(4)))
    assert len(calls(program)) == 3


def test_nothing_to_fuse_gives_the_same_module() -> None:
    program = module(lambda m, x: (x, x), tensor(4))
    assert fuse_operators(program) is program


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
def test_reduction_takes_elementwise_on_both_sides(axis: tuple[int, ...]) -> None:
    def make(m, x):
        return m.sqrt(m.sum(m.multiply(x, x), axis=axis, keepdims=False))

    assert calls(fused(module(make, tensor(8, 16)))) == ["multiply_sum_sqrt"]


def group_of(program: Module) -> Function:
    """The group that main calls first."""
    (name, *_) = calls(program)
    group = program.functions[name]
    assert isinstance(group, Function)
    return group


def arguments(program: Module) -> list[str]:
    """The arguments of main's first call."""
    call = program.main.body.bindings[0].value
    assert isinstance(call, Call)
    return [getattr(a, "name", "") for a in call.args]


def test_both_sides_of_a_product_of_one_array_are_operands_of_their_own() -> None:
    def make(m, x):
        return m("nn.matmul", x, x)

    program = fused(module(make, tensor(8, 8)))
    assert arguments(program) == ["x0", "x0"]
    assert len(group_of(program).params) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda m, x: m("nn.matmul", m.transpose(x, axes=(1, 0)), x),
        lambda m, x: m("nn.matmul", x, m.transpose(x, axes=(1, 0))),
        lambda m, x: m.contract(x, x, equation="ki,kj->ij"),
        lambda m, x: m.contract(x, x, equation="ik,jk->ji"),
    ],
)
def test_both_sides_of_a_symmetric_product_share_a_parameter(make) -> None:
    program = fused(module(make, tensor(8, 8)))
    assert arguments(program) == ["x0"]
    assert len(group_of(program).params) == 1


def test_bytes_that_are_widened_are_operands_of_their_own() -> None:
    def make(m, x):
        wide = m.cast(x, dtype="int32")
        return m("nn.matmul", wide, m.transpose(wide, axes=(1, 0)))

    program = fused(module(make, tensor(64, 64, dtype="int8")))
    assert arguments(program) == ["x0", "x0"]


def test_what_follows_a_symmetric_product_reads_its_operand_as_another_one() -> None:
    def make(m, x):
        return m.add(m("nn.matmul", x, m.transpose(x, axes=(1, 0))), x)

    assert arguments(fused(module(make, tensor(8, 8)))) == ["x0", "x0"]


def test_maps_share_what_they_read_in_step() -> None:
    def make(m, x):
        squares = m.sum(m.multiply(x, x), axis=(1,), keepdims=True)
        return m.divide(m.add(x, m.exp(x)), squares)

    assert arguments(fused(module(make, tensor(20, 8)))) == ["x0"]


def test_what_follows_a_product_reads_its_operand_as_another_one() -> None:
    def make(m, x, w):
        return m.add(m("nn.matmul", x, w), x)

    assert arguments(fused(module(make, tensor(8, 8), tensor(8, 8)))) == ["x0", "x1", "x0"]


def test_operands_that_are_walked_alike_are_one() -> None:
    def make(m, x):
        return m.contract(x, x, equation="ij,ij->i")

    assert arguments(fused(module(make, tensor(8, 64)))) == ["x0"]


def test_slices_of_one_array_in_a_chain_are_operands_of_their_own() -> None:
    def make(m, x):
        parts = [
            m.squeeze(
                m.strided_slice(x, begin=(n, 0, 0), end=(n + 1, 32, 16), strides=(1, 1, 1)),
                axis=(0,),
            )
            for n in range(3)
        ]
        scores = m("nn.matmul", parts[0], m.transpose(parts[1], axes=(1, 0)))
        e = m.exp(m.subtract(scores, m.max(scores, axis=(1,), keepdims=True)))
        return m("nn.matmul", m.divide(e, m.sum(e, axis=(1,), keepdims=True)), parts[2])

    program = fused(module(make, tensor(3, 32, 16)))
    assert arguments(program) == ["x0"] * 3
    assert len(calls(program)) == 1
