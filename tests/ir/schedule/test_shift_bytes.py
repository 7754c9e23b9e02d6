"""shift_bytes: one operand of a product of bytes gets signs, or loses them."""

import numpy as np
import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, pack, pack_grouped, shift_bytes, split

BYTES = ("int8", "uint8")


def product(left: str, right: str, constant: bool = True) -> str:
    known = " const" if constant else ""
    return (
        f"prim @f(x: {left}[3, 6], w: {right}[6, 5]{known}) -> out: int32[3, 5] {{\n"
        "  out[i, j] = sum(k: 6) int32(x[i, k]) * int32(w[k, j])\n}"
    )


def test_its_stages():
    steps = Schedule.of(pack_grouped("w", "j", 2, "k", 4), shift_bytes("out", "w.packed"))
    nest = apply_schedule(parse_prim(product("int8", "int8")), steps)
    verify_nest(nest)
    text = str(nest)
    assert "w.packed: uint8[3, 2, 2, 4] packs w[6, 5] 1 by 4 of 0 shifted)" in text
    assert "out.shift.acc[0] += int32(x[out.shift.i, out.shift.k])" in text
    assert "out[i, j] = out.raw[i, j] + (out.shift[i] * -128:int32)" in text
    assert parse_nest(text) == nest


@pytest.mark.parametrize("left", BYTES)
@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("constant", [True, False])
def test_the_sums_are_the_same(left: str, right: str, constant: bool):
    prim = parse_prim(product(left, right, constant))
    steps = Schedule.of(pack_grouped("w", "j", 2, "k", 4), shift_bytes("out", "w.packed"))
    nest = apply_schedule(prim, steps)
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        for kind, shape in ((left, (3, 6)), (right, (6, 5)))
    )
    out = np.empty((3, 5), np.int32)
    arrays = {"x": x, "w": w, "out": out}
    if constant:
        packed = nest.operands[1].pack
        assert packed is not None
        arrays["w.packed"] = packed.array(w)
    interpret(nest, arrays)
    np.testing.assert_array_equal(out, x.astype(np.int32) @ w.astype(np.int32))


@pytest.mark.parametrize(
    ("prim", "steps", "message"),
    [
        (product("int8", "int8"), [], "not a packed operand of bytes"),
        (product("int8", "int32"), [pack("w", "j", 2)], "not a packed operand of bytes"),
        (
            product("int8", "int8").replace("int32(x[i, k])", "int32(w[k, j])"),
            [pack("w", "j", 2)],
            "not the one sum of products",
        ),
        (
            product("int8", "int8").replace("x[i, k]", "x[i, 0]"),
            [pack("w", "j", 2)],
            "not every axis that out reduces moves both operands",
        ),
        (product("int8", "int8"), [pack("w", "j", 2), split("i", (2, 2))], "before splits"),
        (
            product("int8", "int8"),
            [pack("w", "j", 2), shift_bytes("out", "w.packed")],
            "not a packed operand of bytes",
        ),
    ],
)
def test_what_is_refused(prim, steps, message):
    with pytest.raises(ScheduleError, match=message):
        apply_schedule(parse_prim(prim), Schedule.of(*steps, shift_bytes("out", "w.packed")))
