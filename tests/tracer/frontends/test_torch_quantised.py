"""Integers with scales in graphs that ``torch.export`` makes."""

from __future__ import annotations

import re

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.target import Target

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers the operators

F = torch.nn.functional


class Groups(torch.nn.Module):
    def __init__(self, bits: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        codes = torch.randint(low, high + 1, (40, 128), generator=generator, dtype=torch.int8)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", torch.rand(40, 4, generator=generator) + 0.5)
        self.register_buffer("zeros", torch.randint(-4, 4, (40, 4), generator=generator).float())
        self.range = low, high

    def forward(self, x):
        dequantise = torch.ops.quantized_decomposed.dequantize_per_channel_group
        given = (*self.range, torch.int8, 32, torch.float32)
        weights = dequantise(self.codes, self.scales, self.zeros, *given)
        return torch.nn.functional.linear(x, weights)


class Channels(Groups):
    def forward(self, x):
        dequantise = torch.ops.quantized_decomposed.dequantize_per_channel
        scales, zeros = self.scales[:, 0].double(), self.zeros[:, 0].long()
        weights = dequantise(self.codes, scales, zeros, 0, *self.range, torch.int8)
        return torch.nn.functional.linear(x, weights.float())


class Bytes(Groups):
    def forward(self, x):
        return torch.ops.aten._weight_int8pack_mm(x, self.codes, self.scales[:, 0].contiguous())


class Copied(Groups):
    """What torchao's linears of bytes become."""

    def forward(self, x):
        return x @ self.codes.t().to(torch.float32) * self.scales[:, 0]


def _dequantised_blocks(codes, block_size, scale, zero_point, *_):
    scales, zeros = (v.repeat_interleave(block_size[1], 1) for v in (scale, zero_point))
    return (codes.float() - zeros) * scales


if not hasattr(torch.ops.torchao, "dequantize_affine"):  # torchao brings it
    _SCHEMA = (
        "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType "
        "input_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"
    )
    torch.library.custom_op(
        "torchao::dequantize_affine", _dequantised_blocks, mutates_args=(), schema=_SCHEMA
    ).register_fake(lambda codes, *_: torch.empty(codes.shape))


class Blocks(Groups):
    def forward(self, x):
        given = (self.codes, (1, 32), self.scales, self.zeros, torch.int8, *self.range)
        return F.linear(x, torch.ops.torchao.dequantize_affine(*given))


@pytest.mark.parametrize("kind", [Groups, Channels, Bytes, Copied, Blocks])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_stay_integers(kind, bits) -> None:
    model, x = kind(bits).eval(), torch.randn(3, 128, generator=torch.Generator().manual_seed(1))
    module = lw.from_torch(torch.export.export(model, (x,)))
    wanted = model(x).numpy()
    got = np.asarray(module(x.numpy()))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


Q = torch.ops.quantized_decomposed


def through_bytes(x, scale, zero, low=0, high=255, dtype=torch.uint8):
    """What exporters write around an operator on quantised numbers."""
    given = scale, zero, low, high, dtype
    return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *given), *given)


class Quantised(torch.nn.Module):
    """Weights of -127..127, with a scale for each channel."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        for name, shape in shapes.items():
            w = torch.randn(shape, generator=generator)
            scales, zeros = w.abs().flatten(1).amax(1) / 127, torch.zeros(shape[0]).long()
            w = Q.quantize_per_channel(w, scales, zeros, 0, -127, 127, torch.int8)
            self.register_buffer(name, w)
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", zeros)
            self.register_buffer(f"{name}_bias", torch.randn(shape[0], generator=generator))

    def given(self, name: str):
        """The weights of a layer as numbers, and its bias."""
        w, scales, zeros = (getattr(self, name + end) for end in ("", "_scales", "_zeros"))
        weights = Q.dequantize_per_channel(w, scales, zeros, 0, -127, 127, torch.int8)
        return weights, getattr(self, f"{name}_bias")


class Images(Quantised):
    def __init__(self) -> None:
        super().__init__(first=(16, 3, 3, 3), second=(32, 16, 3, 3), last=(10, 32))

    def forward(self, x):
        x = through_bytes(x, 0.03, 110)
        x = through_bytes(F.relu(F.conv2d(x, *self.given("first"), padding=1)), 0.06, 0)
        x = through_bytes(F.max_pool2d(x, 2), 0.06, 0)
        x = F.relu(F.conv2d(x, *self.given("second"), stride=2))
        x = through_bytes(x, 0.3, 0, 0, 127)  # seven bits, as processors without VNNI need
        x = through_bytes(x.mean((2, 3)), 0.2, 0)
        x = F.linear(x, *self.given("last"))
        return Q.quantize_per_tensor(x, 1.0, -3, -128, 127, torch.int8)


class Rows(Quantised):
    def __init__(self) -> None:
        super().__init__(first=(96, 64), last=(40, 96))

    def forward(self, x):
        x = through_bytes(x, 0.05, 5, -128, 127, torch.int8)
        x = through_bytes(F.gelu(F.linear(x, *self.given("first"))), 0.2, 3)
        return Q.quantize_per_tensor(F.linear(x, *self.given("last")), 2.0, 7, 0, 255, torch.uint8)


class Ranges(Rows):
    """Scales and zero points of the numbers at hand."""

    def forward(self, x):
        for name in ("first", "last"):
            range_of = Q.choose_qparams.tensor(x, 0, 255, 2.0**-12, torch.uint8)
            given = *range_of, 0, 255, torch.uint8
            x = Q.dequantize_per_tensor.tensor(Q.quantize_per_tensor.tensor(x, *given), *given)
            x = F.linear(x, *self.given(name))
        return Q.quantize_per_tensor(x, 2.0, 7, 0, 255, torch.uint8)


@pytest.mark.parametrize(
    ("kind", "shape"), [(Images, (2, 3, 16, 16)), (Rows, (5, 64)), (Ranges, (5, 64))]
)
def test_bytes_are_contracted(kind, shape) -> None:
    model, x = kind().eval(), torch.randn(shape, generator=torch.Generator().manual_seed(3))
    module = lw.from_torch(torch.export.export(model, (x,)))
    wanted = model(x).numpy()
    assert len(np.unique(wanted)) > 9
    got = np.asarray(module(x.numpy()))
    assert got.dtype == wanted.dtype
    assert np.abs(got.astype(int) - wanted).max() <= 1
    text = module.lower(x.numpy()).as_text("kernels")
    contractions = re.findall(r": (\w+)\[.*\] = sum\(.*\) \* ", text)
    assert contractions == ["int32"] * (3 if kind is Images else 2)
    if Target.host().has_dots:  # others multiply wider integers
        assert len(re.findall(r": int8\[[\d, ]*\] const", text)) == len(contractions)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.int8, -128, 127),
        (torch.int8, -127, 127),
        (torch.uint8, 0, 127),
        (torch.int16, -(2**15), 2**15 - 1),
        (torch.int32, -(2**31), 2**31 - 1),
    ],
)
def test_numbers_are_quantised_and_back(dtype, low, high) -> None:
    class Steps(torch.nn.Module):
        def forward(self, x, scales, zeros):
            number, array = (0.25, 3, low, high, dtype), (scales, zeros, 1, low, high, dtype)
            one, each = Q.quantize_per_tensor(x, *number), Q.quantize_per_channel(x, *array)
            known = torch.tensor([0.5, 0.25, 2.0]), torch.tensor([1, 0, 3]), *array[2:]
            back = Q.dequantize_per_tensor(one, *number), Q.dequantize_per_channel(each, *array)
            more = Q.quantize_per_channel(x, *known)
            return one, each, more, *back, Q.dequantize_per_channel(more, *known)

    # Scales are powers of two, so that no quotient is rounded; halves are among them.
    x = torch.arange(-300, 300).reshape(2, 3, 100) / 8.0
    x[0, 0, :2] = torch.tensor([-(2.0**20), 2.0**20])
    given = x, torch.tensor([0.5, 0.125, 1.0]), torch.tensor([2, 0, 5])
    module = lw.from_torch(torch.export.export(Steps(), given))
    for got, wanted in zip(module(*(g.numpy() for g in given)), Steps()(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted.numpy(), strict=True)


@pytest.mark.parametrize("zero", [3, 400, -1000])
def test_zero_points_beyond_the_integers_are_subtracted(zero) -> None:
    class Step(torch.nn.Module):
        def forward(self, x):
            return Q.dequantize_per_tensor(x, 0.5, zero, 0, 255, torch.uint8)

    x = torch.arange(256, dtype=torch.uint8)
    got = lw.from_torch(torch.export.export(Step(), (x,)))(x.numpy())
    np.testing.assert_array_equal(np.asarray(got), (np.arange(256) - zero) * np.float32(0.5))


def test_weights_that_the_graph_quantises_are_those_of_torch() -> None:
    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.linspace(-1, 1, 999).reshape(3, 333))
            self.scales = torch.tensor([1 / 127.5, 0.007, 0.013])

        def forward(self, x):
            zeros = torch.zeros(3, dtype=torch.int64)
            return x + Q.quantize_per_channel(self.w, self.scales, zeros, 0, -127, 127, torch.int8)

    model, x = Step(), torch.zeros(3, 333, dtype=torch.int8)
    got = lw.from_torch(torch.export.export(model, (x,)))(x.numpy())
    np.testing.assert_array_equal(np.asarray(got), model(x).numpy())


def test_products_of_floats_read_weights_as_bytes() -> None:
    class Product(Quantised):
        def forward(self, x):
            return F.linear(x, *self.given("w"))

    model, x = (
        Product(w=(512, 256)),
        torch.randn(2, 256, generator=torch.Generator().manual_seed(4)),
    )
    module = lw.from_torch(torch.export.export(model, (x,)))
    assert ": int8[512, 256] const" in module.lower(x.numpy()).as_text("kernels")
    weights = model.given("w")[0].numpy().astype(np.float64)
    exact = x.numpy() @ weights.T + model.w_bias.numpy()
    np.testing.assert_allclose(np.asarray(module(x.numpy())), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "kept"), [(Copied, "int8[128, 40]"), (Blocks, "uint8[128, 40]")])
def test_bytes_of_torchao_are_not_widened(kind, kept) -> None:
    model, x = kind(8).eval(), torch.randn(1, 128)
    text = lw.from_torch(model, (x,)).lower().as_text("kernels")
    assert re.findall(r"(\w+\[[^\]]*\]) const", text)[0] == kept


def test_bytes_are_multiplied_exactly() -> None:
    class Product(torch.nn.Module):
        def forward(self, a, b):
            return torch._int_mm(a, b)

    generator = torch.Generator().manual_seed(5)
    a, b = (
        torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
        for shape in ((32, 64), (64, 40))
    )
    result = lw.from_torch(Product(), (a, b))(a, b)
    assert result.dtype == torch.int32
    assert torch.equal(result, a.int() @ b.int())
