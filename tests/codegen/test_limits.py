"""What a schedule may ask for: refused before it is made, by whoever compiles it."""

import resource
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.logged import logged_prim, logged_target
from loopwright.autotune.space.space import default_schedule
from loopwright.autotune.workload import as_lists
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.target import FEATURES, Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.limits import LIMITS
from loopwright.ir.schedule.steps import Schedule as S
from loopwright.ir.schedule.steps import (
    Step,
    cache_read,
    pack,
    pack_grouped,
    reorder,
    split,
    split_reduction,
    unroll,
    vectorize,
)

TARGET = Target("x86-64-v3", "some CPU", 2, 32768, 1 << 20, 1 << 25)
LONG = parse_prim("prim @long(x: float32[16777216]) -> out: float32[16777216] { out[i] = x[i] }")
MATMUL = """
prim @matmul(x: float32[S, S], w: float32[S, S]) -> out: float32[S, S] {
  out[i, j] = sum(k: S) x[i, k] * w[k, j]
}"""
SMALL, LARGE = (parse_prim(MATMUL.replace("S", size)) for size in ("64", "1024"))
CONSTANT = parse_prim(
    MATMUL.replace("S", "64").replace("w: float32[64, 64]", "w: float32[64, 64] const")
)


@pytest.mark.parametrize(
    "prim, steps, reason",
    [
        (LONG, [unroll("i")], "instructions"),
        (LONG, [vectorize("i")], "instructions"),
        (LONG, [split("i", (1 << 20, 16)), unroll("i.0")], "instructions"),
        (CONSTANT, [pack("w", "j", 1 << 28)], "pack: w would take"),
        (SMALL, [pack("w", "j", 1 << 28)], "pack: w would take"),
        (SMALL, [pack_grouped("w", "j", 16, "k", 1 << 28)], "pack_grouped: w would take"),
        (LARGE, [split_reduction("out", "k", 1024)], "the workspace would take"),
        (LARGE, [cache_read("x", "i", "j", "k")], "the workspace would take"),
    ],
)  # fmt: skip
def test_too_much_is_refused_at_once(prim: PrimFunc, steps: list[Step], reason: str) -> None:
    begun = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ScheduleError, match=reason):
        compile_kernel(prim, S.of(*steps), TARGET)
    assert time.process_time() - begun < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.parametrize("prim", [LONG, SMALL, LARGE], ids=lambda p: p.name)
def test_default_schedules_stay_within_half_of_the_limits(prim: PrimFunc) -> None:
    kernel = compile_kernel(prim, default_schedule(prim, TARGET)[0], TARGET)
    assert kernel.text.count("\n") < LIMITS.values / 2


WINNERS = Path(str(files("loopwright.tuning_logs"))) / "winners.jsonl"
ROWS = """
prim @rows(x: float32[64, N]) -> out: float32[64, N] {
  out[i, r] = F
}"""
ARGMIN = """
prim @argmin(x: float32[64, N]) -> out: int32[64] {
  t[i]: float32[64] = min(k: N) x[i, k]
  out[i] = min(r: N) where((x[i, r] == t[i]) or isnan(x[i, r]), int32(index(r)), N:int32)
}"""


@pytest.mark.parametrize(
    "value, size, reason",
    [
        ("x[i, r]", 1536, "3072 loads and stores in a row, more than"),
        (
            "sin(x[i, r]) + float32(index(r))",
            768,
            "instructions, more than 48000 with its functions",
        ),
    ],
)
def test_what_would_take_llvm_long_is_refused(value: str, size: int, reason: str) -> None:
    prim = parse_prim(ROWS.replace("F", value).replace("N", f"{size}"))
    with pytest.raises(ScheduleError, match=reason):
        compile_kernel(prim, S.of(unroll("r")), TARGET)


def test_many_stores_of_single_bytes_are_refused() -> None:
    """LLVM tries to join them, in time that grows with the cube of their number."""
    prim = parse_prim(
        "prim @f(x: uint8[640, 5]) -> out: uint8[640, 5] {\n"
        "  out[i, j] = where(index(j) < 3, x[i, j + 2], x[i, j - 3]) + 1:uint8\n}"
    )
    schedule = S.of(reorder("j", "i"), pack_grouped("x", "i", 2, "j", 3), vectorize("i"))
    with pytest.raises(ScheduleError, match="640 stores of single bytes in a row, more than 128"):
        compile_kernel(prim, schedule, replace(TARGET.with_isa("x86-64"), features=frozenset()))


def test_a_long_chain_of_minima_takes_no_time_that_grows_with_its_square() -> None:
    """It took LLVM's instcombine 10 s for 384, and more than a minute for 1,536."""
    prim = parse_prim(ARGMIN.replace("N", "384"))
    kernel = compile_kernel(prim, S.of(unroll("r")), TARGET)
    begun = time.process_time()
    compile_object(kernel.text, TARGET)
    assert time.process_time() - begun < 3.0


def test_no_schedule_that_ships_is_refused() -> None:
    winners = [r for r in TuningLog(WINNERS) if r.ok]
    large = [r for r in winners if r.workload.text.endswith(("r=5", "r=7"))]
    assert large
    for record in [*large, *winners[::20]]:
        schedule = S.from_json(as_lists(record.schedule))
        target = logged_target(record.target)
        assert target is not None
        target = replace(target, features=frozenset(FEATURES))  # those with matrix tiles, too
        compile_kernel(logged_prim(record.workload), schedule, target)
