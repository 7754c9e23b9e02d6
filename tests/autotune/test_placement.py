from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import planted_kernels as planted
import pytest
from loopwright.autotune.measure import run_service
from loopwright.autotune.measure.build_service import BuildService
from loopwright.autotune.measure.guarded import GuardedBuffer, placed
from loopwright.autotune.measure.placement import Operand, Placement, matters
from loopwright.autotune.measure.run_requests import RaceRequest
from loopwright.autotune.measure.run_service import RunService
from loopwright.codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from loopwright.codegen.target import Target


def operand(name: str, size: int, shared: bool = False, copied: bool = True) -> Operand:
    home = GuardedBuffer(size)
    home.bytes[:] = np.arange(size, dtype=np.uint64).astype(np.uint8) + len(name)
    return Operand(name, home, copied, shared)


def bytes_at(place: Placement, entrant: int, number: int, size: int) -> bytes:
    address = ctypes.c_int64.from_address(place.arguments(entrant) + 8 * number).value
    return ctypes.string_at(address, size)


def addresses(place: Placement, entrant: int, count: int = 2) -> list[int]:
    return [*(ctypes.c_int64 * count).from_address(place.arguments(entrant))]


def test_entrants_stand_in_the_same_memory() -> None:
    both = operand("in x", 100, shared=True)
    small, large = operand("own 1", 3000), operand("own 1", 40_000)
    place = Placement([(both, small), (both, large)])
    (x0, w0), (x1, w1) = addresses(place, 0), addresses(place, 1)
    assert (x0, w0) == (x1, w1)
    assert x0 % 64 == 0 and w0 % 4096 == IN_PAGE and x0 + 100 <= w0
    for _ in range(2):  # each finds what is its own, whoever was there before
        for entrant, own in enumerate((small, large)):
            assert bytes_at(place, entrant, 0, 100) == both.home.bytes.tobytes()
            assert bytes_at(place, entrant, 1, own.size) == own.home.bytes.tobytes()


def test_what_is_only_written_is_not_copied() -> None:
    place = Placement([(operand("out y", 64, shared=True, copied=False),)])
    assert bytes_at(place, 0, 0, 64) == bytes(64)


def test_places_lie_apart() -> None:
    some = [(operand("in x", 100, shared=True),)]
    places = [Placement(some) for _ in range(3)]
    assert len({addresses(p, 0, 1)[0] for p in places}) == 3


@pytest.mark.parametrize(
    ("size", "result"), [(1000, False), (1 << 18, True), (1 << 21, True), (1 << 24, False)]
)
def test_it_matters_where_operands_about_fill_the_cache(size: int, result: bool) -> None:
    assert matters([(operand("in x", size),), (operand("in y", 8),)], 1 << 21) is result


@pytest.mark.parametrize("size", [0, 100, PAGED_BYTES - 1, PAGED_BYTES, 70_000, 5_000_000])
def test_memory_begins_where_that_of_programs_does(size: int) -> None:
    buffer = placed(size)
    assert buffer.address % (4096 if size >= PAGED_BYTES else 64) in (0, IN_PAGE)
    if size >= PAGED_BYTES:
        assert buffer.address % 4096 == IN_PAGE
    (_, low), (high, _) = buffer.guards
    assert low <= buffer.address and buffer.address + size <= high < buffer.address + size + 4096
    buffer.fill_with_garbage()
    assert buffer.intact()
    buffer._after[-1:] = 0
    assert buffer.intact() is (not buffer._after.size)
    buffer.close()


def test_a_race_goes_through_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    task = planted.make_task()
    settings = replace(planted.SETTINGS, race_places=2)
    builder = BuildService(task.prim, task.target, planted.TOOLCHAIN, settings)
    built = [builder.handle((("plant", "good", d),)).blob for d in (10, 10_000)]
    stood: set[int] = set()

    class Watched(Placement):
        def arguments(self, entrant: int) -> int:
            words = super().arguments(entrant)
            stood.add(ctypes.c_int64.from_address(words).value)
            return words

    # A machine whose second-level cache the small operands of this kernel fill.
    monkeypatch.setattr(Target, "host", lambda: Target(l2=8 * planted.SIZE))
    monkeypatch.setattr(run_service, "Placement", Watched)
    service = RunService(task.prim, 1, planted.TOOLCHAIN, settings)
    service.open()
    answer = service.handle(RaceRequest(tuple(built), 5)).header
    service.close()
    assert len(stood) >= 2
    assert answer["right"] == [True, True]
    quick, slow = (sorted(s)[len(s) // 2] for s in answer["seconds"])
    assert [len(s) for s in answer["seconds"]] == [5, 5] and quick < slow
