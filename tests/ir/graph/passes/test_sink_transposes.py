"""Transposes behind contractions move on until they vanish."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, check_pass, module, parse, random_args, scalar, tensor
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Constant, Module
from loopwright.ir.graph.passes.fold_constants import fold_constants
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives
from loopwright.ir.graph.passes.sink_transposes import sink_transposes
from loopwright.ir.graph.pipeline import GRAPH, default_pipeline
from loopwright.ir.graph.verify import verify
from loopwright.ir.pass_context import PassContext

HEAD = "fn (%x: Tensor[(2, 8, 8, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]"
CONV = "%0 = conv2d_valid(%x, %w); %1 = transpose(%0, axes=[0, 3, 1, 2]);"  # (2, 4, 6, 6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("exp(%1)", "%1 = exp(%0); transpose(%1, axes=[0, 3, 1, 2])"),
        (
            "broadcast_to(%1, shape=[2, 4, 6, 6])",
            "%1 = broadcast_to(%0, shape=[2, 6, 6, 4]); transpose(%1, axes=[0, 3, 1, 2])",
        ),
        (
            "sum(%1, axis=[2, 3])",
            "sum(%0, axis=[1, 2])",
        ),
        (
            "sum(%1, axis=[1])",
            "sum(%0, axis=[3])",
        ),
        (
            "max(%1, axis=[0])",
            "%1 = max(%0, axis=[0]); transpose(%1, axes=[2, 0, 1])",
        ),
        (
            "nn.pad(%1, pad_width=[[0, 0], [1, 2], [3, 4], [5, 6]])",
            "%1 = nn.pad(%0, pad_width=[[0, 0], [3, 4], [5, 6], [1, 2]]);"
            "transpose(%1, axes=[0, 3, 1, 2])",
        ),
        (
            "concatenate(%1, %1, axis=1)",
            "%1 = concatenate(%0, %0, axis=3); transpose(%1, axes=[0, 3, 1, 2])",
        ),
        (
            "strided_slice(%1, begin=[0, 1, 2, 3], end=[2, 3, 4, 6], strides=[1, 1, 1, 2])",
            "%1 = strided_slice(%0, begin=[0, 2, 3, 1], end=[2, 4, 6, 3], strides=[1, 1, 2, 1]);"
            "transpose(%1, axes=[0, 3, 1, 2])",
        ),
        (
            '%2 = full(shape=[2, 4, 9, 9], fill_value=0, dtype="float32");'
            "strided_set(%2, %1, begin=[0, 0, 1, 2], strides=[1, 1, 1, 1])",
            '%1 = full(shape=[2, 4, 9, 9], fill_value=0, dtype="float32");'
            "%2 = transpose(%1, axes=[0, 2, 3, 1]);"
            "%3 = strided_set(%2, %0, begin=[0, 1, 2, 0], strides=[1, 1, 1, 1]);"
            "transpose(%3, axes=[0, 3, 1, 2])",
        ),
        (
            "%2 = sum(%x, axis=[1, 2, 3]); %3 = reshape(%2, newshape=[2, 1, 1, 1]);"
            "add(broadcast_to(%3, shape=[2, 4, 6, 6]), %1)",
            "%1 = sum(%x, axis=[1, 2, 3]); %2 = reshape(%1, newshape=[2, 1, 1, 1]);"
            "%3 = broadcast_to(%2, shape=[2, 6, 6, 4]);"
            "%4 = add(%3, %0); transpose(%4, axes=[0, 3, 1, 2])",
        ),
        (
            "%2 = strided_slice(%0, begin=[0, 1, 1, 0], end=[2, 5, 5, 4], strides=[1, 1, 1, 1]);"
            "exp(transpose(%2, axes=[0, 3, 1, 2]))",
            "%1 = strided_slice(%0, begin=[0, 1, 1, 0], end=[2, 5, 5, 4], strides=[1, 1, 1, 1]);"
            "%2 = exp(%1); transpose(%2, axes=[0, 3, 1, 2])",
        ),
        (
            'reduce_window(%1, combiner="max", window=[1, 1, 2, 3], strides=[1, 1, 1, 2],'
            " dilation=[1, 1, 1, 1])",
            '%1 = reduce_window(%0, combiner="max", window=[1, 2, 3, 1], strides=[1, 1, 2, 1],'
            " dilation=[1, 1, 1, 1]); transpose(%1, axes=[0, 3, 1, 2])",
        ),
        ("transpose(%1, axes=[0, 2, 3, 1])", "%0"),
    ],
)
def test_what_does_not_care_about_the_order_of_axes(before: str, after: str) -> None:
    check_pass(
        sink_transposes,
        before=f"{HEAD}) {{ {CONV} {before} }}",
        after=f"{HEAD}) {{ %0 = conv2d_valid(%x, %w); {after} }}",
        rtol=1e-5,
    )


ROWS = "%0 = nn.matmul(%x, %w);"  # (6, 8)


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        pytest.param(
            "%i: Tensor[(9), int64]",
            "%0 = nn.matmul(%x, %w); %1 = transpose(%0, axes=[1, 0]); take(%1, %i, axis=1)",
            "%0 = nn.matmul(%x, %w); %1 = take(%0, %i, axis=0); transpose(%1, axes=[1, 0])",
            id="enlarged",
        ),
        pytest.param(
            "%b: Tensor[(8), float32]",
            f"{ROWS} %1 = add(%0, %b); %2 = transpose(%1, axes=[1, 0]); exp(%2)",
            f"{ROWS} %1 = add(%0, %b); %2 = exp(%1); transpose(%2, axes=[1, 0])",
            id="behind a bias",
        ),
        pytest.param(
            "%y: Tensor[(2, 3, 8), float32], %v: Tensor[(2, 3, 5), float32]",
            '%0 = contract(%y, %v, equation="bik,bij->bjk");'
            "%1 = reshape(%0, newshape=[1, 10, 8]); exp(%1)",
            '%0 = contract(%y, %v, equation="bik,bij->bjk");'
            "%1 = exp(%0); reshape(%1, newshape=[1, 10, 8])",
            id="axes that are joined",
        ),
        pytest.param(
            "%y: Tensor[(1, 6, 8), float32]",
            f"{ROWS} %1 = reshape(%0, newshape=[1, 6, 8]); %2 = add(%1, %y);"
            "%3 = sum(%2, axis=[2], keepdims=True); subtract(%2, %3)",
            f"{ROWS} %1 = reshape(%y, newshape=[6, 8]); %2 = add(%0, %1);"
            "%3 = sum(%2, axis=[1], keepdims=True); %4 = subtract(%2, %3);"
            "reshape(%4, newshape=[1, 6, 8])",
            id="a residual sum that is normalised",
        ),
    ],
)
def test_what_follows_a_product(arguments: str, before: str, after: str) -> None:
    head = f"fn (%x: Tensor[(6, 3), float32], %w: Tensor[(3, 8), float32], {arguments})"
    check_pass(
        sink_transposes, before=f"{head} {{ {before} }}", after=f"{head} {{ {after} }}", rtol=1e-5
    )


@pytest.mark.parametrize(
    "text",
    [
        "%1 = reshape(%0, newshape=[6, 2, 4]); exp(%1)",  # heads
        "%1 = reshape(%0, newshape=[1, 6, 8]); transpose(%1, axes=[2, 0, 1])",  # read as it is
        "%1 = transpose(%0, axes=[1, 0]); take(%1, 2, axis=0)",
        "%1 = transpose(%0, axes=[1, 0]); take(%1, 2)",
    ],
)
def test_what_follows_a_product_where_it_is(text: str) -> None:
    head = "fn (%x: Tensor[(6, 3), float32], %w: Tensor[(3, 8), float32])"
    program = f"{head} {{ {ROWS} {text} }}"
    check_pass(sink_transposes, before=program, after=program, rtol=1e-5)


def test_a_transpose_that_is_gone_is_not_read() -> None:
    """%2 joins the transpose that it reads; the sum is of two orders."""
    program = parse(
        "fn (%x: Tensor[(4, 4, 4), float32], %y: Tensor[(4, 4, 4), float32]) {"
        '%0 = contract(%x, %y, equation="bik,bij->bjk"); %1 = transpose(%0, axes=[1, 2, 0]);'
        "%2 = transpose(%1, axes=[1, 0, 2]);"
        '%3 = contract(%y, %x, equation="bik,bij->bjk"); %4 = transpose(%3, axes=[1, 0, 2]);'
        "%5 = add(%4, %1); %6 = transpose(%5, axes=[1, 0, 2]); (%2, %6) }"
    )
    result = sink_transposes(program)
    verify(result)
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
def test_residual_sums_of_a_chain_are_in_the_kernels_of_its_convolutions(depth: int) -> None:
    """The image is channels first; a single sum that leaves at once stays so."""
    rng = np.random.default_rng(0)

    def make(m, x):
        for _ in range(depth):
            weight = Constant(rng.standard_normal((8, 8, 1, 1)).astype("float32"), "w")
            x = m.add(x, m("nn.relu", m("nn.conv2d", x, weight)))
        return x

    program = module(make, tensor(1, 8, 5, 7))
    result = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    kernels = [name.rpartition("_1")[0] or name for name in calls(result)]
    chain = [*depth * ["conv2d_valid_maximum_add"], "transpose"]
    assert kernels == (["conv2d_valid_maximum", "add"] if depth == 1 else chain)
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "add(%1, %y)",  # the other operand would have to be transposed
        "reshape(%1, newshape=[2, 144])",
        "nn.matmul(%1, %1)",
    ],
)
def test_what_stays(text: str) -> None:
    program = f"{HEAD}, %y: Tensor[(2, 4, 6, 6), float32]) {{ {CONV} {text} }}"
    check_pass(sink_transposes, before=program, after=program, rtol=1e-5)


def test_softmax_over_last_axes_keeps_its_rows() -> None:
    def make(m, x, w):
        y = m.transpose(m("conv2d_valid", x, w), axes=(0, 3, 1, 2))
        return m.subtract(y, m.max(y, axis=(3,), keepdims=True))

    program = module(make, tensor(2, 8, 8, 3), tensor(3, 3, 3, 4))
    assert sink_transposes(program) is program


def test_transposes_of_inputs_stay_in_front() -> None:
    program = module(lambda m, x: m.exp(m.transpose(x, axes=(1, 0))), tensor(3, 4))
    assert sink_transposes(program) is program


def calls(program: Module) -> list[str]:
    return [b.value.op.name for b in program.main.body.bindings if isinstance(b.value, Call)]


SHAPES = ((2, 6, 4, 8), (1, 4, 6, 8), (3, 2, 2, 12))


@pytest.mark.parametrize("seed", range(12))
def test_reshapes_of_transposes_are_views_that_move_on(seed: int) -> None:
    """Random splits and joins of a convolution's axes behind a transpose, with what networks do to
    them: a normalisation over joined axes, scales, and the way back."""
    rng = np.random.default_rng(seed)
    n, h, w, c = SHAPES[seed % len(SHAPES)]
    groups = int(rng.choice([g for g in (1, 2, 4, c) if c % g == 0]))
    joined = [(n, groups, c // groups * h * w), (n, groups, c // groups, h * w)]
    joined += [(n, groups, c // groups, h, w), (n * groups, c // groups, h * w), (n, c, h * w)]
    shape = joined[int(rng.integers(len(joined)))]
    last = int(rng.integers(1, len(shape)))
    keepdims = bool(rng.integers(2))

    def make(m, x, kernel):
        y = m.transpose(m("conv2d_valid", x, kernel), axes=(0, 3, 1, 2))
        y = m.reshape(y, newshape=shape)
        total = m.sum(y, axis=tuple(range(last, len(shape))), keepdims=keepdims)
        total = m.reshape(total, newshape=(*shape[:last], *(1,) * (len(shape) - last)))
        y = m.exp(m.subtract(y, total))
        scale = Constant(rng.standard_normal((1, *shape[1:])).astype("float32"))
        y = m.reshape(m.multiply(y, scale), newshape=(n, c, h, w))
        y = m.add(y, Constant(rng.standard_normal((c, 1, 1)).astype("float32")))
        return m.transpose(m.maximum(y, scalar(0)), axes=(0, 2, 3, 1))

    program = module(make, tensor(n, h + 2, w + 2, 3), tensor(3, 3, 3, c))
    program = lower_to_primitives(program)
    after = verify(sink_transposes(program))
    args = [a * np.float32(0.1) for a in random_args(program)]
    assert_same_value(evaluate(after, *args), evaluate(program, *args), rtol=1e-4)
    left = [b.value for b in fold_constants(after).main.body.bindings]
    for call in (v for v in left if isinstance(v, Call) and v.op.name == "transpose"):
        moved = [a for a in call.attrs["axes"] if call.args[0].type.shape[a] != 1]
        assert moved == sorted(moved), f"{program}\n{after}"


def test_axes_joined_from_others_of_the_same_product_are_not_taken_for_each_other() -> None:
    """6 x 4 and 4 x 6 pixels are both 24 in a row, each in an order of its own."""

    def make(m, x, y, w):
        def row(image):
            channels_first = m.transpose(m("conv2d_valid", image, w), axes=(0, 3, 2, 1))
            return m.reshape(channels_first, newshape=(1, 4, 24))

        return m.add(row(x), row(y))

    program = module(make, tensor(1, 8, 6, 3), tensor(1, 6, 8, 3), tensor(3, 3, 3, 4))
    args = random_args(program)
    after = verify(sink_transposes(program))
    assert_same_value(evaluate(after, *args), evaluate(program, *args), rtol=1e-5)


def test_a_normalisation_of_groups_reads_a_convolution_in_its_order() -> None:
    """The sum over an image and the channels of a group is one over the image, where vectors run
    along the channels, and one over the few sums of a group."""

    def make(m, x, w):
        y = m.transpose(m("conv2d_valid", x, w), axes=(0, 3, 1, 2))
        return m.sum(m.reshape(y, newshape=(2, 2, 72)), axis=(2,), keepdims=False)

    after = sink_transposes(module(make, tensor(2, 8, 8, 3), tensor(3, 3, 3, 4)))
    sums = [b.value.attrs["axis"] for b in after.main.body.bindings if b.value.op.name == "sum"]
    assert sums == [(1,), (1, 3)]  # of (2, 36, 2, 2)
    assert calls(after) == ["conv2d_valid", "reshape", "sum", "sum"]


def test_residual_network_with_channels_first_has_only_fused_convolutions() -> None:
    rng = np.random.default_rng(3)

    def weight(*shape: int) -> Constant:
        return Constant(rng.standard_normal(shape).astype("float32"), "w")

    def make(m, x):
        def conv(y, channels):
            return m("nn.conv2d", y, weight(4, channels, 3, 3), padding=(1, 1, 1, 1))

        first = m("nn.relu", m.add(conv(x, 3), weight(4, 1, 1)))
        second = m("nn.relu", m("nn.batch_norm", conv(first, 4), *[m.abs(weight(4))] * 4))
        third = m("nn.relu", m.add(conv(second, 4), first))
        pooled = m("nn.max_pool2d", third, pool_size=(2, 2), strides=(2, 2))
        return m("nn.global_avg_pool2d", pooled)

    program = module(make, tensor(2, 3, 8, 8))
    result = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    assert calls(result) == [
        "conv2d_valid_add_maximum",
        "conv2d_valid_add_maximum_1",
        "conv2d_valid_add_maximum_2",
        "reduce_window",
        "sum_multiply",
        "reshape",
    ]
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol=1e-4)


def test_argmax_over_channels_is_turned_with_its_iota() -> None:
    def make(m, x, w):
        y = m.transpose(m("conv2d_valid", x, w), axes=(0, 3, 1, 2))
        return m.argmax(m.maximum(y, scalar(0)), axis=1, keepdims=False)

    program = lower_to_primitives(module(make, tensor(2, 8, 8, 3), tensor(3, 3, 3, 4)))
    result = sink_transposes(program)
    assert sink_transposes(result) is result
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
