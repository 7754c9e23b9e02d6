"""tensorize: loops that a machine instruction runs: their text, their meaning, their code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.errors import InternalError, ParseError, ScheduleError
from loopwright.ir.loop.nest import Intrinsic, Nest, statements
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule, completed
from loopwright.ir.schedule.steps import (
    Schedule,
    Step,
    cache_write,
    pack_grouped,
    prefetch_next,
    reorder,
    split,
    tensorize,
    unroll,
    vectorize,
)
from prims import run_nest

VNNI = Target("x86-64-v4", features=frozenset({"avx512vnni"}))
AMX = replace(VNNI, features=frozenset({"avx512vnni", "amx-int8"}))


def product(m: int, k: int, n: int, left: str = "uint8", right: str = "int8") -> PrimFunc:
    return parse_prim(
        f"prim @f(x: {left}[{m}, {k}], w: {right}[{k}, {n}] const) -> out: int32[{m}, {n}] {{\n"
        f"  out[i, j] = sum(k: {k}) int32(x[i, k]) * int32(w[k, j])\n}}"
    )


def schedule(prim: PrimFunc, scope: str, groups: int, *steps: Step) -> Schedule:
    m, k = (int(str(s)) for s in prim.params[0].shape)
    n = int(str(prim.params[1].shape[1]))
    inner = ("i.1", "j.1", "k.1") if scope == "tiles" else ("k.1", "i.1", "j.1")
    return Schedule.of(
        pack_grouped("w", "j", 16, "k", 4),
        split("j", (-(-n // 16), 16)),
        split("i", (-(-m // 8), 8)),
        split("k", (-(-k // (4 * groups)), groups, 4)),
        reorder("j.0", "i.0", "k.0", *inner, "k.2"),
        cache_write("out", scope, "i.0"),
        *(unroll(loop) for loop in ("i.1", "k.1", "k.2")),
        vectorize("j.1"),
        *steps,
    )


def instructions(nest: Nest) -> list[str]:
    return [s.instruction for s in statements(nest.body) if isinstance(s, Intrinsic)]


def check(prim: PrimFunc, nest: Nest) -> None:
    """The nest prints, parses, is in order, and gives what NumPy gives."""
    verify_nest(nest)
    assert parse_nest(str(nest)) == nest
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(0, 100, [int(str(s)) for s in p.shape]).astype(p.dtype.numpy)
        for p in prim.params
    )
    found = run_nest(nest, {"x": x, "w": w})["out"]
    np.testing.assert_array_equal(found, x.astype(np.int32) @ w.astype(np.int32))


def test_products_in_vector_lanes():
    prim = product(8, 8, 16)
    nest = apply_schedule(prim, schedule(prim, "registers", 1, tensorize("k.2", "vnni")))
    assert str(nest).splitlines()[5:10] == [
        "  for k.0 in 2:",
        "    unroll i.1 in 8:",
        "      vectorize j.1 in 16:",
        "        unroll k.2 in 4 by vnni:",
        "          out.acc[i.1, j.1] += int32(x[i.1, 4 * k.0 + k.2])"
        " * int32(w.packed[0, k.0, j.1, k.2])",
    ]
    check(prim, nest)


def test_prefetches_stand_before_the_instruction():
    """They are no part of what it does: the lines that come next are asked for once a group."""
    prim = product(40, 64, 64)
    ahead = prefetch_next("out", "w.packed", "j.0")
    steps = schedule(prim, "registers", 1, tensorize("k.2", "vnni"))
    nest = apply_schedule(prim, Schedule((*steps.steps, ahead)))
    lines = [line.strip() for line in str(nest).splitlines()]
    groups = [n for n, line in enumerate(lines) if line == "unroll k.2 in 4 by vnni:"]
    assert groups and all(lines[n - 1].startswith("prefetch w.packed[j.0 + 1") for n in groups)
    check(prim, nest)
    assert "llvm.prefetch" in compile_kernel(prim, Schedule((*steps.steps, ahead)), VNNI).text


def test_sums_in_tile_registers():
    prim = product(9, 70, 20, "int8")
    steps = schedule(prim, "tiles", 16, tensorize("j.1", "amx"))
    nest = apply_schedule(prim, steps)
    # Two rows of tiles (8 and 1) by two columns (16 and 4); what 64 leaves of k stays as loops.
    assert instructions(nest) == ["amx.zero", "amx.dot", "amx.store"] * 4
    check(prim, nest)
    text = compile_kernel(prim, steps, AMX).text
    assert text.count("call void @llvm.x86.tdpbssd(") == 4
    assert text.count("call void @llvm.x86.tilestored64(") == 4
    assert "llvm.x86" not in compile_kernel(prim, steps, VNNI).text


def test_what_the_first_version_recognised():
    prim = product(8, 64, 32)
    for scope, groups, loops in (
        ("registers", 1, {("k.2", "vnni")}),
        ("tiles", 16, {("k.2", "vnni"), ("j.1", "amx")}),
    ):
        old = schedule(prim, scope, groups)
        whole = completed(prim, old)
        assert {s.args for s in whole.steps if s.name == "tensorize"} == loops
        assert apply_schedule(prim, whole) == apply_schedule(prim, old)
        assert completed(prim, whole) == whole


@pytest.mark.parametrize("target", [VNNI, AMX])
@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", [(1, 4, 4), (37, 133, 70), (16, 64, 16), (5, 7, 19)])
def test_rules_name_the_instruction(target: Target, left: str, sizes: tuple[int, int, int]):
    prim = product(*sizes, left)
    space = ScheduleSpace(prim, target)
    for row in space.sample(12, np.random.default_rng(3)):
        if not space.sketch_name(row).startswith("dots"):
            continue
        steps = space.schedule(row)
        nest = apply_schedule(prim, steps)
        verify_nest(nest)
        assert parse_nest(str(nest)) == nest
        assert any(s.name == "tensorize" for s in steps.steps)
        old = Schedule(tuple(s for s in steps.steps if s.name != "tensorize"))
        assert completed(prim, old) == steps
        assert space.row_of(old) is not None


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            tensorize("k.2", "mma"),
            "tensorize: no instruction 'mma'; there are vnni, bf16, madd",
        ),
        (tensorize("k.3", "vnni"), "tensorize: no loop 'k.3'"),
        (tensorize("k.0", "vnni"), "tensorize: vnni takes a loop of the kind unroll, not k.0"),
        (tensorize("i.1", "vnni"), "tensorize: i.1 is not what vnni does"),
        (tensorize("j.1", "amx"), "tensorize: j.1 is not what amx does"),
    ],
)
def test_what_no_instruction_does_is_refused(step: Step, message: str):
    prim = product(8, 8, 16)
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(prim, schedule(prim, "registers", 1, step))
    assert message in caught.value.message


def test_the_verifier_knows_what_an_instruction_does():
    prim = product(8, 8, 16)
    nest = apply_schedule(prim, schedule(prim, "registers", 1, tensorize("k.2", "vnni")))
    for before, after in (
        ("unroll k.2 in 4 by vnni", "unroll k.2 in 3 by vnni"),
        ("by vnni", "by amx.dot"),
        ("vectorize j.1 in 16:\n        unroll", "for j.1 in 16:\n        unroll"),
    ):
        text = str(nest).replace(before, after)
        assert text != str(nest)
        with pytest.raises(InternalError, match=r"these loops are not what (vnni|amx\.dot) does"):
            verify_nest(parse_nest(text))
    with pytest.raises(ParseError, match=r"no instruction 'mma'; there are vnni, bf16, madd"):
        parse_nest(str(nest).replace("by vnni", "by mma"))
