from __future__ import annotations

from loopwright.autotune.measure.canary import Canary


def test_without_a_kernel_nothing_is_slow() -> None:
    assert not Canary().slowed()


def test_a_machine_that_is_slow_for_a_while_is_seen() -> None:
    speed = [1.0]
    canary = Canary()
    canary.adopt(2.0, lambda: 2.0 * speed[0], lambda: None)
    assert [canary.slowed() for _ in range(5)] == [False] * 5
    speed[0] = 1.1  # samples differ by as much
    assert not canary.slowed()
    speed[0] = 1.9
    assert canary.slowed()
    speed[0] = 1.0
    assert not canary.slowed()


def test_one_slow_reading_is_read_again() -> None:
    readings = iter([5.0, 2.0])
    canary = Canary()
    canary.adopt(2.0, lambda: next(readings), lambda: None)
    assert not canary.slowed()


def test_a_machine_that_stays_slow_is_not_waited_for() -> None:
    canary = Canary()
    canary.adopt(2.0, lambda: 4.0, lambda: None)
    seen = [canary.slowed() for _ in range(40)]
    assert seen[0] and not any(seen[20:])


def test_kernels_are_given_back() -> None:
    closed: list[int] = []
    canary = Canary()
    canary.adopt(3.0, lambda: 3.0, lambda: closed.append(1))
    canary.adopt(2.0, lambda: 2.0, lambda: closed.append(2))
    assert closed == [1] and canary.cost == 2.0
    canary.close()
    assert closed == [1, 2] and not canary.slowed()
