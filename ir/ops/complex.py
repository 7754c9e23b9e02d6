"""Complex numbers: bitcast, complex, real, imag, conj.

Below the graph there are no complex numbers: ``split_complex`` replaces each by two tensors, of
real and of imaginary parts. ``pairs`` says what the other operators do with those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtype import DTYPES
from ..errors import InternalError, LoopwrightTypeError
from ..graph.compose import F, Value, unbroadcast
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import broadcast_shapes
from ..graph.types import TensorType
from ..loop.tensor import Tensor
from ..traits import Trait
from .declare import Element, attr, composite, operator_doc, primitive
from .sampling import floats, ints, sample

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition


def _bitcast_rule(x: TensorType, dtype: str) -> TensorType:
    wanted = DTYPES.get(str(dtype))
    if wanted is None or wanted.is_bool:
        raise LoopwrightTypeError(f"the bytes of {x.short} cannot be read as {dtype}")
    old, new = x.dtype.bytes, wanted.bytes
    if old == new:
        return TensorType(x.shape, wanted)
    if old > new:
        return TensorType((*x.shape, old // new), wanted)
    if not x.shape or x.shape[-1] != new // old:
        raise LoopwrightTypeError(
            f"{x.short} has no last axis of size {new // old}, the bytes of one {wanted}",
            hint=f"reshape it to (..., {new // old})",
        )
    return TensorType(x.shape[:-1], wanted)


def _bitcast_reference(x: Any, dtype: str) -> Any:
    x, wanted = np.asarray(x, order="C"), np.dtype(dtype)
    if x.itemsize == wanted.itemsize:
        return x.view(wanted)
    if x.itemsize > wanted.itemsize:
        return x[..., None].view(wanted)
    return x.view(wanted)[..., 0] if x.size else np.zeros(x.shape[:-1], wanted)


def _complex_floats(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    return (floats(rng, shape, "float64") + 1j * floats(rng, shape, "float64")).astype(dtype)


@primitive(
    "bitcast",
    Pattern.OPAQUE,
    batch="stacked",
    not_differentiable="the result has the operand's bits",
    traits=Trait.BYTES | Trait.MOVES,
    dtypes="biufc",
    rule=_bitcast_rule,
    reference=_bitcast_reference,
    samples=lambda rng: [
        sample(floats(rng, (3, 5)), dtype="int32"),
        sample(floats(rng, (3, 5), "float64"), dtype="uint8"),
        sample(floats(rng, (3, 5, 2)), dtype="float64"),
        sample(floats(rng, (2,)), dtype="complex64"),
        sample(_complex_floats(rng, (2, 3), "complex128"), dtype="float64"),
        sample(_complex_floats(rng, (4, 2), "complex64"), dtype="complex128"),
        sample(ints(rng, (0, 4), "int16"), dtype="int64"),
    ],
)
def _bitcast(
    _out: TensorType, _x: Tensor, *, _dtype: str = attr("name of the result's dtype, not bool")
) -> Element:
    """The bytes of the elements, read as elements of another dtype.

    ``x`` of any shape and dtype. Elements of the same size keep the shape. Of smaller ones the
    result has another last axis, with the elements in the bytes of one; of larger ones the last
    axis of ``x`` has to be just those, and goes. LoopwrightTypeError if it is not.

        fn (%x: Tensor[(3), complex64]) -> Tensor[(3, 2), float32] {
          bitcast(%x, dtype="float32")
        }
    """
    raise InternalError("the result is the operand's memory, and no kernel writes it")


def _complex_rule(re: TensorType, im: TensorType) -> TensorType:
    if re.dtype.is_half:
        hint = ".astype(np.float32)"
        raise LoopwrightTypeError(f"no complex numbers have parts of {re.dtype}", hint=hint)
    return TensorType(broadcast_shapes((re, im)), re.dtype.complex)


def _complex_reference(re: Any, im: Any) -> Any:
    result = np.empty(np.broadcast_shapes(re.shape, im.shape), np.result_type(re, 1j))
    result.real, result.imag = re, im
    return result


def _transpose_complex(step: Transposition) -> None:
    """The pairing of tangents and cotangents is the real part of their product."""
    for n, part in enumerate((F.real, F.imag)):
        if step.linear[n]:
            ct = part(step.ct)
            step.add(n, unbroadcast(-ct if n else ct, step.shape(n)))


def _transpose_part(step: Transposition, number: int) -> None:
    ct, zero = step.ct, step.ct.full((), 0)
    step.add(0, F.complex(zero, -ct) if number else F.complex(ct, zero))


@composite(
    "complex",
    Pattern.INJECTIVE,
    dtypes="f",
    tangent=lambda step: step.again(step.moved(0), step.moved(1)),
    transpose=_transpose_complex,
    rule=_complex_rule,
    reference=_complex_reference,
    samples=lambda rng: [
        sample(floats(rng, (3, 5)), floats(rng, (5,))),
        sample(floats(rng, (), "float64"), floats(rng, (2, 0), "float64")),
    ],
)
def _complex(re: Value, im: Value) -> Value:
    """Complex numbers from their real and imaginary parts.

    Operands are broadcast as in NumPy, and are both float32, which gives complex64, or float64,
    which gives complex128. LoopwrightTypeError for other dtypes, or shapes that do not broadcast.

        fn (%re: Tensor[(7), float32], %im: Tensor[(7), float32]) -> Tensor[(7), complex64] {
          complex(%re, %im)
        }
    """
    shape = broadcast_shapes((re.type, im.type))
    parts = [F.broadcast_to(part, shape=shape) for part in (re, im)]
    stacked = F.stack(*parts, axis=len(shape))
    return F.bitcast(stacked, dtype=re.dtype.complex.name)


def _samples(rng: np.random.Generator) -> list[Sample]:
    shapes = [((3, 5), "complex64"), ((), "complex128"), ((0, 2), "complex64")]
    return [sample(_complex_floats(rng, shape, dtype)) for shape, dtype in shapes]


def _part_rule(x: TensorType) -> TensorType:
    return TensorType(x.shape, x.dtype.part)


def _declare_part(name: str, number: int, text: str, reference: Any) -> None:
    @composite(
        name,
        Pattern.INJECTIVE,
        dtypes="c",
        rule=_part_rule,
        reference=reference,
        samples=_samples,
        tangent=lambda step: step.again(step.moved()),
        transpose=lambda step: _transpose_part(step, number),
        doc=operator_doc(
            f"{text} part of complex numbers.",
            """``x`` of any shape, complex64 or complex128; the result has the same shape and is
            float32 or float64. LoopwrightTypeError for another dtype.""",
            "fn (%x: Tensor[(7), complex64]) -> Tensor[(7), float32]",
            f"{name}(%x)",
        ),
    )
    def _part(x: Value) -> Value:
        pairs = F.bitcast(x, dtype=x.dtype.part.name)
        begin, end = (*(0 for _ in x.shape), number), (*x.shape, number + 1)
        part = F.strided_slice(pairs, begin=begin, end=end, strides=(1,) * pairs.rank)
        return F.reshape(part, newshape=x.shape)


_declare_part("real", 0, "Real", np.real)
_declare_part("imag", 1, "Imaginary", np.imag)


@composite(
    "conj",
    Pattern.INJECTIVE,
    dtypes="c",
    rule=lambda x: x,
    reference=np.conj,
    samples=_samples,
    tangent=lambda step: step.again(step.moved()),
    transpose=lambda step: step.add(0, F.conj(step.ct)),
)
def _conj(x: Value) -> Value:
    """Complex conjugates.

    ``x`` of any shape, complex64 or complex128; the result has the same type. LoopwrightTypeError
    for another dtype.

        fn (%x: Tensor[(7), complex64]) -> Tensor[(7), complex64] {
          conj(%x)
        }
    """
    return F.complex(F.real(x), F.negative(F.imag(x)))
