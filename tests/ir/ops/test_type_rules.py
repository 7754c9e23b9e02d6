"""Type rules on symbolic sizes, and the messages of misuse."""

import pytest
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import DTYPES, dtype_names
from loopwright.ir.errors import LoopwrightError, LoopwrightTypeError, LoopwrightValueError
from loopwright.ir.graph.types import TensorType, TupleType
from loopwright.ir.ops import all_operators

OPERATORS = all_operators()
n, m = symbol("n"), symbol("m")


def t(*shape, dtype="float32"):
    return TensorType(shape, DTYPES[dtype])


def infer(name, *types, **attrs):
    op = OPERATORS[name]
    return op.infer(tuple(types), op.complete_attrs(attrs))


@pytest.mark.parametrize(
    "name, types, attrs, shape",
    [
        ("add", [t(n, 4), t(n, 1)], {}, (n, 4)),
        ("add", [t(1), t(n)], {}, (n,)),
        ("less", [t(n), t()], {}, (n,)),
        ("where", [t(n, 1, dtype="bool"), t(m), t(1, m)], {}, (n, m)),
        ("sum", [t(n, m, 3)], {"axis": (-1, 0)}, (m,)),
        ("mean", [t(n, m)], {"axis": 1, "keepdims": True}, (n, 1)),
        ("argmax", [t(n, m)], {"axis": 0}, (m,)),
        ("nn.matmul", [t(n, 64), t(64, m)], {}, (n, m)),
        ("nn.matmul", [t(n, 1, 8, m), t(3, m, 2)], {}, (n, 3, 8, 2)),
        ("einsum", [t(n, m, 5), t(n, 5, 7)], {"equation": "bij,bjk->bik"}, (n, m, 7)),
        ("reshape", [t(n, 4)], {"newshape": (-1,)}, (4 * n,)),
        ("reshape", [t(n, 12)], {"newshape": (n, 3, -1)}, (n, 3, 4)),
        ("reshape", [t(4 * n)], {"newshape": (-1, 4)}, (n, 4)),
        ("reshape", [t(n, m)], {"newshape": (m, -1)}, (m, n)),
        ("transpose", [t(n, 3, m)], {}, (m, 3, n)),
        ("broadcast_to", [t(n, 1)], {"shape": (2, n, m)}, (2, n, m)),
        ("expand_dims", [t(n)], {"axis": -1}, (n, 1)),
        ("squeeze", [t(n, 1)], {}, (n,)),
        ("concatenate", [t(n, 3), t(m, 3)], {"axis": 0}, (n + m, 3)),
        ("stack", [t(n), t(n)], {"axis": 1}, (n, 2)),
        ("strided_slice", [t(n)], {"begin": (1,), "end": (n,), "strides": (1,)}, (n - 1,)),
        ("nn.pad", [t(n, 3)], {"pad_width": ((1, 2), (0, 0))}, (n + 3, 3)),
        ("take", [t(n, 8), t(m, dtype="int64")], {"axis": 0}, (m, 8)),
        ("one_hot", [t(n, dtype="int64")], {"depth": 10}, (n, 10)),
        ("full", [], {"shape": (n, 2), "fill_value": 0}, (n, 2)),
        ("arange", [], {"stop": n}, (n,)),
        ("nn.softmax", [t(n, m)], {}, (n, m)),
        ("nn.layer_norm", [t(n, m), t(m), t(m)], {}, (n, m)),
        ("nn.batch_norm", [t(n, 3, 4, 4), *[t(3)] * 4], {}, (n, 3, 4, 4)),
        ("nn.conv2d", [t(n, 3, 8, 8), t(16, 3, 3, 3)], {"padding": 1}, (n, 16, 8, 8)),
        ("nn.conv2d", [t(1, 3, n, m), t(16, 3, 3, 3)], {}, (1, 16, n - 2, m - 2)),
        ("nn.max_pool2d", [t(n, 3, 8, 8)], {"pool_size": 2}, (n, 3, 4, 4)),
        ("nn.global_avg_pool2d", [t(n, 3, m, m)], {}, (n, 3, 1, 1)),
    ],
)
def test_symbolic_sizes(name, types, attrs, shape):
    assert infer(name, *types, **attrs).shape == shape


def test_split_of_a_symbolic_size():
    result = infer("split", t(4 * n, 3), indices_or_sections=2)
    assert result == TupleType((t(2 * n, 3), t(2 * n, 3)))


@pytest.mark.parametrize(
    "name, types, attrs, message",
    [
        (
            "add",
            [t(64, 784), t(32, 784)],
            {},
            "add: operands float32[64, 784] and float32[32, 784] do not broadcast, "
            "sizes 64 and 32 differ",
        ),
        (
            "add",
            [t(n), t(m)],
            {},
            "add: operands float32[n] and float32[m] do not broadcast, sizes n and m differ",
        ),
        (
            "subtract",
            [t(64, 10), t(64)],
            {},
            "subtract: operands float32[64, 10] and float32[64] do not broadcast, "
            "sizes 10 and 64 differ\n  try: reshape float32[64] to (64, 1)",
        ),
        (
            "multiply",
            [t(3), t(3, dtype="int32")],
            {},
            "multiply: operands float32[3] and int32[3] differ in dtype\n"
            "  try: cast both to float64",
        ),
        (
            "exp",
            [t(3, dtype="int32")],
            {},
            "exp: needs a float, not int32[3]\n  try: cast to float32 or float64",
        ),
        (
            "bitwise_and",
            [t(2), t(2)],
            {},
            "bitwise_and: needs an integer or bool, not float32[2] and float32[2]",
        ),
        (
            "left_shift",
            [t(2), t(2)],
            {},
            "left_shift: needs an integer, not float32[2] and float32[2]",
        ),
        ("negative", [t(2, dtype="bool")], {}, "negative: needs a number, not bool[2]"),
        ("exp", [t(2), t(2)], {}, "exp: takes 1 operand, not 2"),
        (
            "where",
            [t(2), t(2), t(2)],
            {},
            "where: the condition is bool, not float32[2]\n  try: compare it: condition != 0",
        ),
        (
            "cast",
            [t(2)],
            {"dtype": "float8"},
            "cast: dtype 'float8' is not supported; the dtypes are " + dtype_names(),
        ),
        ("clip", [t(2, dtype="int8")], {"a_max": 200}, "clip: a_max 200 does not fit int8"),
        (
            "clip",
            [t(2, dtype="int8")],
            {"a_max": 1.5},
            "clip: a_max 1.5 is not an integer, as int8 needs\n"
            "  try: cast the operand to float32 or float64",
        ),
        ("sum", [t(2, 3)], {"axis": 2}, "sum: axis 2 is out of range for float32[2, 3]"),
        ("sum", [t(2, 3)], {"axis": (0, -2)}, "sum: axis (0, -2) names an axis twice"),
        ("max", [t(2, 0)], {"axis": 1}, "max: float32[2, 0] has no element along axis 1"),
        ("argmin", [t(2, 3)], {"axis": (0, 1)}, "argmin: takes one axis or None, not (0, 1)"),
        ("any", [t(2, 3)], {}, "any: needs bool, not float32[2, 3]"),
        (
            "nn.matmul",
            [t(8, 64), t(32, 64)],
            {},
            "nn.matmul: inner sizes differ, 64 and 32, in float32[8, 64] @ float32[32, 64]\n"
            "  try: transpose the second operand: a @ b.T",
        ),
        (
            "nn.matmul",
            [t(2, 8, 4), t(3, 4, 5)],
            {},
            "nn.matmul: batches of float32[2, 8, 4] @ float32[3, 4, 5] do not broadcast, "
            "sizes 2 and 3 differ",
        ),
        (
            "nn.matmul",
            [t(), t(3)],
            {},
            "nn.matmul: float32[] and float32[3], a scalar has no matrix product\n"
            "  try: multiply: a * b",
        ),
        (
            "nn.dense",
            [t(8, 64), t(64, 10)],
            {},
            "nn.dense: float32[8, 64] and float32[64, 10] do not fit (..., k) and (units, k)\n"
            "  try: nn.matmul takes the second operand as (k, units)",
        ),
        (
            "einsum",
            [t(2, 3), t(4, 5)],
            {"equation": "ij,jk->ik"},
            "einsum: 'ij,jk->ik': sizes of j differ, 3 and 4, in float32[2, 3] and float32[4, 5]",
        ),
        (
            "einsum",
            [t(2, 3)],
            {"equation": "ijk->k"},
            "einsum: 'ijk->k' for float32[2, 3]: 'ijk' does not name the 2 axes of operand 0",
        ),
        (
            "reshape",
            [t(2, 3)],
            {"newshape": (4, -1)},
            "reshape: float32[2, 3] has 6 elements, the shape (4, -1) does not divide them",
        ),
        (
            "reshape",
            [t(n, 3)],
            {"newshape": (n, 4)},
            "reshape: float32[n, 3] has 3 * n elements, the shape (n, 4) has 4 * n",
        ),
        (
            "transpose",
            [t(2, 3)],
            {"axes": (0, 0)},
            "transpose: (0, 0) is not a permutation of the axes of float32[2, 3]",
        ),
        (
            "broadcast_to",
            [t(3)],
            {"shape": (3, 2)},
            "broadcast_to: float32[3] does not broadcast to (3, 2)",
        ),
        ("squeeze", [t(2, 3)], {"axis": 1}, "squeeze: axis 1 of float32[2, 3] has size 3, not 1"),
        (
            "concatenate",
            [t(2, 3), t(2, 4)],
            {"axis": 0},
            "concatenate: operands float32[2, 3] and float32[2, 4] differ on axis 1, 3 and 4",
        ),
        (
            "stack",
            [t(2), t(3)],
            {},
            "stack: operands float32[2] and float32[3] differ in shape\n"
            "  try: concatenate joins operands that differ on one axis",
        ),
        (
            "split",
            [t(7)],
            {"indices_or_sections": 2},
            "split: axis 0 of float32[7] does not divide into 2 equal parts\n"
            "  try: give the indices at which to cut",
        ),
        (
            "strided_slice",
            [t(5)],
            {"begin": (0,), "end": (6,), "strides": (1,)},
            "strided_slice: 0:6:1 leaves axis 0 of float32[5]",
        ),
        (
            "nn.pad",
            [t(5)],
            {"pad_width": ((-1, 0),)},
            "nn.pad: width -1 on axis 0 of float32[5] is negative\n  try: slice the operand",
        ),
        (
            "take",
            [t(5), t(2)],
            {},
            "take: indices are integers, not float32[2]\n  try: cast them to int64",
        ),
        (
            "full",
            [],
            {"shape": (2,), "fill_value": -1, "dtype": "uint8"},
            "full: fill_value -1 does not fit uint8",
        ),
        ("arange", [], {"stop": 3, "step": 0}, "arange: the step is 0"),
        ("tril", [t(3)], {}, "tril: needs two axes or more, not float32[3]"),
        (
            "nn.gelu",
            [t(3)],
            {"approximate": "fast"},
            "nn.gelu: approximate 'fast' is none of none, tanh",
        ),
        (
            "nn.layer_norm",
            [t(2, 3), t(2), t(3)],
            {},
            "nn.layer_norm: gamma of float32[2, 3] has the shape (3) of the axes normalised, "
            "not float32[2]",
        ),
        (
            "nn.conv2d",
            [t(1, 8, 5, 5), t(8, 1, 3, 3)],
            {},
            "nn.conv2d: float32[1, 8, 5, 5] has 8 channels, the kernel float32[8, 1, 3, 3] takes 1 "
            "(1 group of 1)\n  try: groups=8",
        ),
        (
            "nn.conv2d",
            [t(1, 3, 2, 5), t(8, 3, 3, 3)],
            {},
            "nn.conv2d: a window of 3 does not fit into 2 elements of float32[1, 3, 2, 5]\n"
            "  try: more padding, or a smaller window or dilation",
        ),
        (
            "nn.max_pool2d",
            [t(3, 8, 8)],
            {"pool_size": 2},
            "nn.max_pool2d: needs the four axes NCHW, not float32[3, 8, 8]\n"
            "  try: expand_dims(x, 0) adds a batch of one",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_misuse_is_explained(name, types, attrs, message):
    with pytest.raises((LoopwrightTypeError, LoopwrightValueError)) as caught:
        infer(name, *types, **attrs)
    assert str(caught.value) == message


def test_unknown_and_missing_attributes():
    with pytest.raises(
        LoopwrightError, match=r"^sum has no attribute axes \(it has: axis, keepdims\)$"
    ):
        infer("sum", t(3), axes=0)
    with pytest.raises(
        LoopwrightError, match=r"^one_hot needs the attribute depth: size of the new axis$"
    ):
        infer("one_hot", t(3, dtype="int64"))


@pytest.mark.parametrize("name", OPERATORS)
def test_no_operands_at_all_or_far_too_many(name):
    """A wrong number of operands is told, whatever the operator."""
    op = OPERATORS[name]
    if op.params and not op.params[-1].startswith("*"):
        for count in (0, len(op.params) + 1):
            with pytest.raises(LoopwrightTypeError, match=f"^{name}: takes"):
                op.infer((t(2, 2),) * count, _any_attrs(op))


def _any_attrs(op):
    return {a.name: a.default for a in op.attrs}


def test_no_complex_numbers_have_half_parts():
    half = t(3, dtype="float16")
    with pytest.raises(LoopwrightTypeError) as raised:
        infer("complex", half, half)
    assert raised.value.message == "complex: no complex numbers have parts of float16"
    assert raised.value.hint == ".astype(np.float32)"
