"""Operands as a program leaves them, from copies of them."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import planted_kernels as planted
import pytest
from loopwright.autotune.measure.build_service import BuildService
from loopwright.autotune.measure.guarded import placed
from loopwright.autotune.measure.harness import Harness
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.placement import Operand
from loopwright.autotune.measure.rotation import FAR, MOST_OVERWRITES, Rotation, copies_of
from loopwright.autotune.measure.run_requests import RaceRequest, RunRequest
from loopwright.autotune.measure.run_service import RunService
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim

MB = 1 << 20


def _touched(sizes: dict[str, int], copies: dict[str, int], name: str) -> int:
    """Returns the bytes of other memory that are touched until a copy of an operand comes again."""
    seen = {(other, call % copies[other]) for call in range(copies[name]) for other in sizes}
    return sum(sizes[other] for other, _ in seen) - sizes[name]


@pytest.mark.parametrize(
    "between",
    [
        {},
        {"w": 20 * MB, "x": 0, "out": 3 * MB},
        {"w": 20 * MB, "x": 0, "out": MB, "bias": 21 * MB},
        {"w": 400 * MB, "x": 5 * MB, "out": 9 * MB},
    ],
)
def test_enough_is_touched_between_two_uses(between: dict[str, int]) -> None:
    sizes = {"w": 2 * MB, "x": MB // 2, "bias": 400, "out": MB}
    copies = copies_of(sizes, between)
    for name, size in sizes.items():
        wanted = min(between.get(name, 0), FAR)
        alone = sum(sizes.values()) - size
        assert (copies[name] == 1) is (0.9 * wanted <= alone)
        if copies[name] > 1:
            assert 0.9 * wanted <= _touched(sizes, copies, name) <= wanted + 2 * (alone + size)


def test_each_call_has_the_next_copy() -> None:
    home = placed(100)
    home.bytes[:] = np.arange(100)
    shared = Operand("in x", home, True, True, "x")
    own = Operand("own 1", home, True, False, "w")
    rotation = Rotation({"x": 2, "w": 3})
    cycle = rotation.cycle([shared, own], (7,))
    calls = np.array(cycle.words).reshape(cycle.count, cycle.each)
    assert calls.shape == (3, 3) and set(calls[:, 2]) == {7}
    assert len(set(calls[:, 0])) == 2 and len(set(calls[:, 1])) == 3
    for address in calls[:, :2].flat:
        assert ctypes.string_at(int(address), 100) == bytes(range(100))
    # Another candidate packs a little more: it has the same memory.
    larger = placed(120)
    again = np.array(rotation.cycle([replace(own, home=larger)]).words)
    assert set(again) == set(calls[:, 1])
    for buffer in (home, larger):
        buffer.close()


def test_a_result_is_written_over_a_parameter_as_in_the_program() -> None:
    home, result = placed(400), placed(400)
    home.bytes[:] = 7
    into = Operand("in x", home, True, True, "x")
    out = Operand("out y", result, False, True, "y")
    rotation = Rotation({"x": 2}, in_place={"y": "x"})
    cycle = rotation.cycle([into, out])
    calls = np.array(cycle.words).reshape(cycle.count, cycle.each)
    assert cycle.count == 2 and (calls[:, 0] == calls[:, 1]).all()
    ctypes.memset(int(calls[1, 1]), 9, 400)
    rotation.renew(2 * MOST_OVERWRITES)
    assert ctypes.string_at(int(calls[1, 0]), 400) == bytes([9]) * 400
    rotation.renew(1)  # every copy was written that often: it has its values again
    assert ctypes.string_at(int(calls[1, 0]), 400) == bytes([7]) * 400
    assert rotation.emptied().in_place == {"y": "x"} and not rotation._overwritten
    apart = Rotation({"x": 2}).cycle([into, out])
    assert not set(apart.words[::2]) & set(apart.words[1::2])
    for buffer in (home, result):
        buffer.close()


def test_candidates_run_on_operands_as_the_program_leaves_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = planted.make_task()
    builder = BuildService(task.prim, task.target, planted.TOOLCHAIN, planted.SETTINGS)
    built = builder.handle((("plant", "good", 10),)).blob
    between = {b.name: MB for b in (*task.prim.params, *task.prim.output_buffers)}
    service = RunService(task.prim, 1, planted.TOOLCHAIN, planted.SETTINGS, between=between)
    turned: list[int] = []
    rotating = Harness.rotating

    def watched(self: Harness, function: int, cycle, calls: int) -> float:
        turned.append(cycle.count)
        return rotating(self, function, cycle, calls)

    monkeypatch.setattr(Harness, "rotating", watched)
    service.open()
    alone = service.handle(RunRequest(built, 1.0)).header
    assert alone["seconds"] and turned and min(turned) > 10
    turned.clear()
    first = service._rotation
    other = RunService(task.prim, 1, planted.TOOLCHAIN, planted.SETTINGS, between=between)
    other.open()
    assert other.handle(RunRequest(built, 1.0)).header["seconds"]
    other.close()  # only one service has copies at a time
    assert first is not service._rotation and not first._memory
    turned.clear()
    warm, place = (service.handle(RaceRequest((built,), 3, c)).header for c in ("warm", "place"))
    service.close()
    assert warm["right"] == place["right"] == [True]
    assert (
        len(warm["seconds"][0]) == len(place["seconds"][0]) == 3 and len(turned) == 8
    )  # new copies settle


def test_kernels_that_choose_elements_are_right_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tried on other inputs as well, whose results must not be taken for the answer."""
    prim = parse_prim(
        "prim @f(x: float32[8, 40]) -> out: float32[8] {\n  out[i] = max(k: 40) x[i, k]\n}"
    )
    target = Target.host()
    builder = BuildService(prim, target, TOOLCHAIN, DEFAULT_SETTINGS)
    built = builder.handle(tuple(default_schedule(prim, target)[0].to_json())).blob
    service = RunService(prim, 1, TOOLCHAIN, DEFAULT_SETTINGS, between={"x": MB, "out": MB})
    service.open()
    answer = service.handle(RunRequest(built, 1.0)).header
    assert service._probes and "error" not in answer and answer["seconds"]
    service.close()
