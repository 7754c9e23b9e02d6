from __future__ import annotations

import ctypes

import numpy as np
import pytest
from loopwright.autotune.measure.data_races import IterationWatch
from loopwright.autotune.measure.harness import Harness
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import LoadedObject, load_object
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import Target

TURNS = 6
# What turn %i does with the array of floats %x (numbered 0 ...) and 64 bytes of scratch behind it.
BODIES = {
    "own": "store float %v, ptr %xi",
    "neighbour": "%p = getelementptr float, ptr %xi, i64 1\n store float %v, ptr %xi\n"
    " store float %w, ptr %p",
    "total": "%t = load float, ptr %scratch\n %s = fadd float %t, %v\n"
    " store float %s, ptr %scratch\n store float %v, ptr %xi",
    "equal": "store float 3.0, ptr %scratch\n store float %v, ptr %xi",
    "scratch": "store float %v, ptr %scratch\n %s = load float, ptr %scratch\n"
    " store float %s, ptr %xi",
}
TEXT = """
declare void @lw_parallel_for(ptr, ptr, i64)
define internal void @turn(ptr %context, i64 %begin, i64 %end) {{
entry:
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %xi = getelementptr float, ptr %context, i64 %i
  %scratch = getelementptr float, ptr %context, i64 16
  %f = sitofp i64 %i to float
  %v = fadd float %f, 1.0
  %w = fadd float %f, 0.5
  {body}
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
define void @kernel(ptr %args) {{
  %x = load ptr, ptr %args
  call void @lw_parallel_for(ptr @turn, ptr %x, i64 {turns})
  ret void
}}
"""


def loaded(harness: Harness, kind: str, turns: int = TURNS) -> LoadedObject:
    text = TEXT.format(body=BODIES[kind], turns=turns)
    loop = harness.use_pool(pool.symbols()["lw_parallel_for"])
    return load_object(compile_object(text, Target(isa="x86-64")), {"lw_parallel_for": loop})


@pytest.mark.parametrize("kind", list(BODIES))
def test_turns_that_write_to_one_place_are_a_race(kind: str) -> None:
    harness = Harness()
    memory = np.full(20, 7, np.float32)
    address = (ctypes.c_void_p * 1)(memory.ctypes.data)
    code = loaded(harness, kind)
    watch = IterationWatch(harness, [memory.view(np.uint8)], seed=0)
    with harness.watched(watch.loop):
        for watch.number in range(3):
            memory[:] = 7
            harness.first(code.address("kernel"), ctypes.addressof(address))
    assert watch.race == (kind != "own")
    assert kind == "neighbour" or memory[TURNS - 1] == TURNS
    memory[:] = 7  # outside, loops go to the pool as ever
    harness.seconds(code.address("kernel"), ctypes.addressof(address), 1)
    assert memory[TURNS - 1] in (TURNS, TURNS - 1.5) and memory[0] == 1


@pytest.mark.parametrize("number", range(5))
def test_two_turns_are_apart_in_every_round(number: int) -> None:
    harness = Harness()
    memory = np.full(20, 7, np.float32)
    address = (ctypes.c_void_p * 1)(memory.ctypes.data)
    code = loaded(harness, "equal", 2)
    watch = IterationWatch(harness, [memory.view(np.uint8)], seed=0)
    watch.number = number
    with harness.watched(watch.loop):
        harness.first(code.address("kernel"), ctypes.addressof(address))
    assert watch.race


def test_a_first_call_finds_garbage_in_registers_and_on_the_stack() -> None:
    text = """
    define void @kernel(ptr %args) {
      %x = load ptr, ptr %args
      %room = alloca [4096 x i8]
      %r = call <4 x i32> asm sideeffect "movups %xmm7, $0", "=x"()
      store <4 x i32> %r, ptr %x
      %p = getelementptr i8, ptr %room, i64 128
      %s = load volatile i32, ptr %p
      %q = getelementptr i8, ptr %x, i64 16
      store i32 %s, ptr %q
      ret void
    }"""
    memory = np.zeros(5, np.uint32)
    address = (ctypes.c_void_p * 1)(memory.ctypes.data)
    code = load_object(compile_object(text, Target(isa="x86-64")))
    seconds = Harness().first(code.address("kernel"), ctypes.addressof(address))
    assert memory.tolist() == [0x7B7B7B7B] * 5
    assert 0 < seconds < 5
