"""sink_casts: casts move behind what only moves elements, where that keeps the meaning."""

from __future__ import annotations

import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.passes.sink_casts import sink_casts


def test_a_cast_that_others_read_is_there_once_more() -> None:
    check_pass(
        sink_casts,
        before='fn (%x: Tensor[(8, 4), int8]) { %0 = cast(%x, dtype="int32");'
        " %1 = transpose(%0, axes=[1, 0]); (%0, %1) }",
        after='fn (%x: Tensor[(8, 4), int8]) { %0 = cast(%x, dtype="int32");'
        ' %1 = transpose(%x, axes=[1, 0]); %2 = cast(%1, dtype="int32"); (%0, %2) }',
    )


@pytest.mark.parametrize(
    "text",
    [
        # -0.5 is no byte, and sums would wrap around.
        'fn (%x: Tensor[(8), int8]) { %0 = cast(%x, dtype="int32");'
        " nn.pad(%0, pad_width=[[1, 0]], pad_value=300) }",
        'fn (%x: Tensor[(8), int8]) { %0 = cast(%x, dtype="int32"); sum(%0) }',
        # The same size, another kind, and narrower.
        'fn (%x: Tensor[(8), int8]) { %0 = cast(%x, dtype="uint8"); expand_dims(%0, axis=0) }',
        'fn (%x: Tensor[(8), int8]) { %0 = cast(%x, dtype="float32"); expand_dims(%0, axis=0) }',
        'fn (%x: Tensor[(8), float32]) { %0 = cast(%x, dtype="float16"); expand_dims(%0, axis=0) }',
    ],
)
def test_what_stays_where_it_is(text: str) -> None:
    module = parse(text)
    assert sink_casts(module) is module
