"""sink_dequantising: bytes are moved and chosen as bytes, and not quantised again alike."""

from __future__ import annotations

import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.passes.sink_dequantising import sink_dequantising

IMAGE = "fn (%x: Tensor[(1, 2, 6, 6), uint8]) { "
POOL = "%1 = nn.max_pool2d(%0, pool_size=[2, 2], padding=[1, 1, 1, 1]); "


def test_the_greatest_of_dequantised_bytes_is_that_of_the_greatest_byte() -> None:
    check_pass(
        sink_dequantising,
        before=IMAGE + "%0 = nn.dequantize(%x, 0.5f, 3u8);" + POOL + "nn.quantize(%1, 0.5f, 3u8) }",
        after=IMAGE + POOL.replace("%1 = ", "").replace("%0", "%x").rstrip("; ") + " }",
    )


def test_what_others_read_is_dequantised_as_well() -> None:
    check_pass(
        sink_dequantising,
        before="fn (%x: Tensor[(8, 4), int8]) { %0 = nn.dequantize(%x, 0.5f, 3i8);"
        " %1 = strided_slice(%0, begin=[2, 0], end=[8, 4], strides=[2, 1]); (%0, %1) }",
        after="fn (%x: Tensor[(8, 4), int8]) { %0 = nn.dequantize(%x, 0.5f, 3i8);"
        " %1 = strided_slice(%x, begin=[2, 0], end=[8, 4], strides=[2, 1]);"
        " %2 = nn.dequantize(%1, 0.5f, 3i8); (%0, %2) }",
    )


@pytest.mark.parametrize(
    "text",
    [
        # Another zero point, another scale, scales that differ, and more elements than before.
        "nn.dequantize(%x, 0.5f, 3u8); nn.quantize(%0, 0.5f, 4u8)",
        "nn.dequantize(%x, 0.5f, 3u8); nn.quantize(%0, 0.25f, 3u8)",
        "nn.dequantize(%x, %s, %z, axis=1); transpose(%0, axes=[1, 0, 2, 3])",
        "nn.dequantize(%x, 0.5f, 3u8); broadcast_to(%0, shape=[4, 2, 6, 6])",
        # The greatest integer stands for the least number, and a window may be of padding alone.
        "nn.dequantize(%x, -0.5f, 3u8); nn.max_pool2d(%0, pool_size=[2, 2])",
        "nn.dequantize(%x, 0.5f, 3u8); nn.max_pool2d(%0, pool_size=[2, 2], padding=[2, 2, 2, 2])",
        "nn.dequantize(%x, 0.5f, 3u8); nn.max_pool2d(%0, pool_size=[2, 2], padding=[1, 1, 1, 1],"
        " dilation=[2, 2])",
        "nn.dequantize(%x, 0.5f, 3u8); nn.avg_pool2d(%0, pool_size=[2, 2])",
    ],
)
def test_what_stays_where_it_is(text: str) -> None:
    scales = "%s: Tensor[(2), float32], %z: Tensor[(2), uint8]"
    module = parse(f"fn (%x: Tensor[(1, 2, 6, 6), uint8], {scales}) {{ %0 = {text} }}")
    assert sink_dequantising(module) is module
