"""tabulate_bytes: what is computed of one byte is looked up, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.limits import GraphLimits
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.passes.tabulate_bytes import tabulate_bytes

HEADER = (
    "fn (%x: Tensor[(16, 16), {}], %y: Tensor[(16, 16), {}], "
    "%s: Tensor[(16), float32], %z: Tensor[(16), uint8]) {{ "
)


def made(text: str, dtype: str = "uint8") -> tuple[Module, Module]:
    module = parse(HEADER.format(dtype, dtype) + text + " }")
    return module, tabulate_bytes(module)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    "text",
    [
        "%0 = nn.dequantize(%x, 0.05f, ZERO); %1 = nn.gelu(%0); nn.quantize(%1, 0.02f, ZERO)",
        # Quantised in between, and used twice; the scale is quantised itself; views in between.
        "%0 = nn.dequantize(%x, 0.05f, ZERO); %1 = sigmoid(%0); %2 = nn.quantize(%1, 0.004f, ZERO);"
        " %3 = nn.dequantize(%2, 0.004f, ZERO); %4 = multiply(%0, %3); nn.quantize(%4, 0.1f, ZERO)",
        "%0 = nn.dequantize(9u8, 0.05f, 3u8); %1 = nn.dequantize(%x, %0, ZERO);"
        " %2 = maximum(%1, 0f); nn.quantize(%2, 0.2f, ZERO)",
        "%0 = nn.dequantize(%x, 0.05f, ZERO); %1 = reshape(%0, newshape=[4, 64]); %2 = tanh(%1);"
        " %3 = transpose(%2, axes=[1, 0]); nn.quantize(%3, 0.01f, ZERO)",
        '%0 = cast(%x, dtype="float32"); %1 = sqrt(%0); cast(%1, dtype="uint8")',
    ],
)
def test_a_map_of_a_byte_is_looked_up(text: str, dtype: str) -> None:
    before, after = made(text.replace("ZERO", "3u8" if dtype == "uint8" else "3i8"), dtype)
    calls = [b.value.op.name for b in after.main.body.bindings]
    assert "take" in calls and not {"nn.quantize", "nn.dequantize"} & {*calls}
    assert {*calls} <= {"take", "cast", "reshape", "transpose"}
    every = np.arange(256).astype(np.uint8).view(dtype).reshape(16, 16)
    given = every, every, np.ones(16, np.float32), np.ones(16, np.uint8)
    np.testing.assert_array_equal(evaluate(after.main, *given), evaluate(before.main, *given))
    assert tabulate_bytes(after) is after


@pytest.mark.parametrize(
    "text",
    [
        # Scales of rows, two bytes, bytes that are repeated, and what is no byte at the end.
        "%0 = nn.dequantize(%x, %s, %z); nn.quantize(%0, 0.5f, 3u8)",
        "%0 = nn.dequantize(%x, 0.5f, 3u8); %1 = nn.dequantize(%y, 0.5f, 3u8); %2 = add(%0, %1);"
        " nn.quantize(%2, 0.5f, 3u8)",
        "%0 = nn.dequantize(%x, 0.5f, 3u8); %1 = broadcast_to(%0, shape=[2, 16, 16]);"
        " nn.quantize(%1, 0.25f, 3u8)",
        "%0 = nn.dequantize(%x, 0.5f, 3u8); %1 = transpose(%0, axes=[1, 0]); %2 = add(%0, %1);"
        " nn.quantize(%2, 0.5f, 3u8)",
        "%0 = nn.dequantize(%x, 0.5f, 3u8); nn.relu(%0)",
        "%0 = nn.dequantize(%x, 0.5f, 3u8); cumsum(%0, axis=1)",
        # Integers alone: instructions on bytes are as fast as a table.
        "minimum(%x, 9u8)",
        'cast(%x, dtype="int8")',
    ],
)
def test_what_is_computed(text: str) -> None:
    before, after = made(text)
    assert after is before


def test_nothing_is_looked_up_without_an_instruction() -> None:
    text = "%0 = nn.dequantize(%x, 0.5f, 3u8); %1 = nn.silu(%0); nn.quantize(%1, 0.25f, 7u8)"
    module = made(text)[0]
    assert tabulate_bytes(module, GraphLimits(permutes_bytes=False)) is module
