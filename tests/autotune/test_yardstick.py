from __future__ import annotations

from loopwright.autotune.measure.yardstick import Yardstick


def test_without_a_kernel_nothing_is_slow() -> None:
    assert not Yardstick().slowed()


def test_a_machine_that_is_slow_for_a_while_is_seen() -> None:
    speed = [1.0]
    yardstick = Yardstick()
    yardstick.adopt(2.0, lambda: 2.0 * speed[0], lambda: None)
    assert [yardstick.slowed() for _ in range(5)] == [False] * 5
    speed[0] = 1.1  # samples differ by as much
    assert not yardstick.slowed()
    speed[0] = 1.9
    assert yardstick.slowed()
    speed[0] = 1.0
    assert not yardstick.slowed()


def test_one_slow_reading_is_read_again() -> None:
    readings = iter([5.0, 2.0])
    yardstick = Yardstick()
    yardstick.adopt(2.0, lambda: next(readings), lambda: None)
    assert not yardstick.slowed()


def test_a_machine_that_stays_slow_is_not_waited_for() -> None:
    yardstick = Yardstick()
    yardstick.adopt(2.0, lambda: 4.0, lambda: None)
    seen = [yardstick.slowed() for _ in range(40)]
    assert seen[0] and not any(seen[20:])


def test_kernels_are_given_back() -> None:
    closed: list[int] = []
    yardstick = Yardstick()
    yardstick.adopt(3.0, lambda: 3.0, lambda: closed.append(1))
    yardstick.adopt(2.0, lambda: 2.0, lambda: closed.append(2))
    assert closed == [1] and yardstick.cost == 2.0
    yardstick.close()
    assert closed == [1, 2] and not yardstick.slowed()
