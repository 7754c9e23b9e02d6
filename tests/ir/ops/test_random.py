"""Operators with random shapes and attributes, sizes 0 and 1 too, against their reference."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.ops import get
from operators import array_type, assert_agree, evaluate_operator

SIZES = st.integers(0, 5)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)


def values(shape, dtype="float32", seed=0):
    """Distinct small numbers, so that a wrong index shows."""
    order = np.random.default_rng(seed).permutation(int(np.prod(shape)))
    return (order.reshape(shape) / 8).astype(dtype)


def agree(name, *arrays, **attrs):
    op = get(name)
    complete = op.complete_attrs(attrs)
    expected = op.reference(arrays, complete)
    inferred = op.infer(tuple(array_type(a) for a in arrays), complete)
    assert inferred == array_type(expected)
    assert_agree(evaluate_operator(op, arrays, complete), expected, arrays)


@given(SHAPES, st.data())
def test_slices(shape, data):
    slices = [data.draw(st.slices(size)) for size in shape]
    bounds = [s.indices(size) for s, size in zip(slices, shape, strict=True)]
    begin, end, strides = zip(*bounds, strict=True) if bounds else ((), (), ())
    agree("strided_slice", values(shape), begin=begin, end=end, strides=strides)
    op = get("strided_slice")
    attrs = {"begin": begin, "end": end, "strides": strides}
    result = evaluate_operator(op, [values(shape)], attrs).value
    np.testing.assert_array_equal(result, values(shape)[tuple(slices)])


@given(SHAPES, st.data())
def test_reductions(shape, data):
    axes = st.lists(st.integers(0, max(0, len(shape) - 1)), unique=True, max_size=len(shape))
    axis = data.draw(st.none() | axes.map(tuple))
    keepdims = data.draw(st.booleans())
    agree("sum", values(shape), axis=axis, keepdims=keepdims)
    agree(
        "variance", values(shape), axis=axis, keepdims=keepdims, ddof=data.draw(st.integers(0, 2))
    )
    agree("any", values(shape) == 0, axis=axis, keepdims=keepdims)
    assume(all(shape[a] for a in (range(len(shape)) if axis is None else axis)))
    agree("max", values(shape, "int16"), axis=axis, keepdims=keepdims)


@given(SHAPES, st.data())
def test_argmax(shape, data):
    assume(0 not in shape)
    axis = data.draw(st.none() | st.integers(0, len(shape) - 1)) if shape else None
    few = np.floor(values(shape, seed=1)).astype("int32")
    agree("argmax", few, axis=axis, keepdims=data.draw(st.booleans()))
    agree("argmin", few.astype("float64"), axis=axis)


@given(st.lists(SIZES, max_size=2), st.tuples(SIZES, SIZES, SIZES), st.data())
def test_matmul(batch, sizes, data):
    m, k, n = sizes
    own = [data.draw(st.sampled_from([[1] * len(batch), batch, batch[1:]])) for _ in range(2)]
    a = values((*own[0], m, k))
    b = values((*own[1], k, n), seed=1)
    agree("nn.matmul", a, b)
    agree("nn.matmul", a, b[..., 0] if n and b.ndim == 2 else b)
    agree("nn.matmul", a[..., 0, :] if m and a.ndim == 2 else a, b)


@given(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3), st.data())
def test_einsum(terms, data):
    letters = sorted(set("".join(terms)))
    out = data.draw(st.permutations(letters)) if letters else []
    out = "".join(out[: data.draw(st.integers(0, len(letters)))])
    size = {letter: data.draw(st.integers(0, 4)) for letter in letters}
    arrays = [
        values(tuple(size[c] for c in term), "float64", seed=n) for n, term in enumerate(terms)
    ]
    agree("einsum", *arrays, equation=f"{','.join(terms)}->{out}")


@given(SHAPES, st.sampled_from(["constant", "edge", "reflect"]), st.data())
def test_pad(shape, mode, data):
    widths = tuple(data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4))) for _ in shape)
    assume(mode == "constant" or 0 not in shape)
    agree("nn.pad", values(shape), pad_width=widths, pad_value=-1, mode=mode)


@given(st.lists(SIZES, min_size=1, max_size=3), st.data())
def test_take_and_concatenate(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for n in range(data.draw(st.integers(1, 4))):
        own = list(shape)
        own[axis] = data.draw(SIZES)
        parts.append(values(tuple(own), seed=n))
    agree("concatenate", *parts, axis=axis)
    indices = np.array(data.draw(st.lists(st.integers(-9, 9), max_size=5)), "int64")
    assume(0 not in shape or indices.size == 0)
    mode = data.draw(st.sampled_from(["clip", "wrap"]))
    agree("take", values(tuple(shape)), indices, axis=axis, mode=mode)


@st.composite
def windows(draw):
    """Sizes of an image, and attributes of a window over it."""
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    image = (draw(st.integers(0, 2)), 2, draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    return image, draw(pair), {"strides": draw(pair), "dilation": draw(pair), "padding": padding}


@given(windows(), st.booleans(), st.integers(1, 2), st.integers(1, 3))
def test_convolution(window, last, groups, out):
    image, kernel, attrs = window
    x = values(image)
    w = values((out * groups, 2 // groups, *kernel), seed=1)
    if last:
        x, w = np.moveaxis(x, 1, 3), np.transpose(w, (2, 3, 1, 0))
        attrs |= {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    try:
        get("nn.conv2d").infer(
            (array_type(x), array_type(w)),
            {**get("nn.conv2d").complete_attrs(attrs), "groups": groups},
        )
    except LoopwrightError:
        assume(False)
    agree("nn.conv2d", x, w, groups=groups, **attrs)


@given(windows(), st.booleans(), st.booleans())
def test_pooling(window, ceil_mode, include):
    image, kernel, attrs = window
    attrs |= {"pool_size": kernel, "ceil_mode": ceil_mode}
    try:
        get("nn.max_pool2d").infer(
            (array_type(values(image)),), get("nn.max_pool2d").complete_attrs(attrs)
        )
    except LoopwrightError:
        assume(False)
    agree("nn.max_pool2d", values(image), **attrs)
    agree("nn.avg_pool2d", values(image), count_include_pad=include, **attrs)
