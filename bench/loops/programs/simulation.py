"""Simulations: a state that many steps change."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []

# The coefficients of Dormand and Prince, J. Comput. Appl. Math. 6 (1980): stages, and the error
# of the fifth order beside the fourth.
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERRORS = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
TABLE = np.zeros((6, 6))
for _number, _row in enumerate(STAGES):
    TABLE[_number, : len(_row)] = _row
WEIGHTS = np.array(ERRORS)


def _end(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return np.array([2.0, 0.0]), float(size)


def rk45_plain(start: Any, end: Any) -> Any:
    (x, y), t, step = start, 0.0, 1e-3
    slopes = np.zeros((7, 2))
    while t < end:
        step = min(step, end - t)
        next_x, next_y = x, y
        for stage in range(7):
            next_x, next_y = x, y
            for before in range(stage):
                next_x += step * TABLE[stage - 1, before] * slopes[before, 0]
                next_y += step * TABLE[stage - 1, before] * slopes[before, 1]
            slopes[stage, 0] = next_y
            slopes[stage, 1] = 5.0 * (1.0 - next_x * next_x) * next_y - next_x
        off_x, off_y = 0.0, 0.0
        for stage in range(7):
            off_x += step * WEIGHTS[stage] * slopes[stage, 0]
            off_y += step * WEIGHTS[stage] * slopes[stage, 1]
        off = max(abs(off_x) / 1e-8, abs(off_y) / 1e-8, 1e-10)
        if off <= 1.0:
            x, y, t = next_x, next_y, t + step
        step *= min(5.0, max(0.2, 0.9 * off**-0.2))
    return np.array([x, y])


@program(rk45_plain, _end, small=1, large=400, tolerance=1e-5, arrays=2)
def rk45(start: Any, end: Any) -> Any:
    """Van der Pol's equation by a Runge-Kutta method that adapts its step."""

    def slope(y: Any) -> Any:
        return np.stack([y[1], 5.0 * (1.0 - y[0] * y[0]) * y[1] - y[0]])

    def advance(state: Any) -> Any:
        y, t, step = state
        step = np.minimum(step, end - t)
        slopes = [slope(y)]
        for row in STAGES:
            place = y + step * sum(c * k for c, k in zip(row, slopes))
            slopes.append(slope(place))
        error = step * sum(c * k for c, k in zip(ERRORS, slopes))
        off = np.maximum(np.max(np.abs(error)) / 1e-8, 1e-10)
        accept = off <= 1.0
        following = step * np.minimum(5.0, np.maximum(0.2, 0.9 * off**-0.2))
        return np.where(accept, place, y), np.where(accept, t + step, t), following

    return lw.while_loop(lambda state: state[1] < end, advance, (start, 0.0, 1e-3))[0]


def _board(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random((size, size)) < 0.4).astype(np.int32), 4 * size


def life_plain(board: Any, steps: Any) -> Any:
    n = len(board)
    for _ in range(steps):
        following = np.zeros_like(board)
        for i in range(n):
            for j in range(n):
                count = 0
                for y in (i - 1, i, (i + 1) % n):
                    for x in (j - 1, j, (j + 1) % n):
                        count += board[y, x]
                count -= board[i, j]
                if count == 3 or (count == 2 and board[i, j] == 1):
                    following[i, j] = 1
        board = following
    return board


@program(life_plain, _board, small=7, large=64, arrays=4096)
def life(board: Any, steps: Any) -> Any:
    """Conway's game on a torus."""

    def step(_: Any, board: Any) -> Any:
        rows = board + np.roll(board, 1, 0) + np.roll(board, -1, 0)
        count = rows + np.roll(rows, 1, 1) + np.roll(rows, -1, 1) - board
        return ((count == 3) | ((count == 2) & (board == 1))).astype(board.dtype)

    return lw.fori_loop(0, steps, step, board)


def _plate(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.random((size, size)), 5 * size


def heat_plain(plate: Any, steps: Any) -> Any:
    n = len(plate)
    old, new = plate.copy(), plate.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
                new[i, j] = old[i, j] + 0.2 * (around - 4.0 * old[i, j])
        old, new = new, old
    return old


@program(heat_plain, _plate, small=7, large=64, tolerance=1e-12, arrays=4096)
def heat(plate: Any, steps: Any) -> Any:
    """Heat flows in a plate whose border is kept as it is."""

    def step(_: Any, plate: Any) -> Any:
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate = plate.copy()
        plate[1:-1, 1:-1] += 0.2 * (around - 4.0 * plate[1:-1, 1:-1])
        return plate

    return lw.fori_loop(0, steps, step, plate)


def _bodies(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.normal(size=(8, 3)), 0.1 * rng.normal(size=(8, 3)), size


def bodies_plain(place: Any, speed: Any, steps: Any) -> Any:
    place, speed = place.copy(), speed.copy()
    n = len(place)
    for _ in range(steps):
        for i in range(n):
            for j in range(n):
                squared = 0.1
                for k in range(3):
                    squared += (place[j, k] - place[i, k]) ** 2
                pull = 1e-3 / squared**1.5
                for k in range(3):
                    speed[i, k] += pull * (place[j, k] - place[i, k])
        place += 1e-3 * speed
    return place, speed


@program(bodies_plain, _bodies, small=4, large=2000, tolerance=1e-6, arrays=192)
def bodies(place: Any, speed: Any, steps: Any) -> Any:
    """Eight bodies that attract each other."""

    def step(_: Any, state: Any) -> Any:
        place, speed = state
        away = place[None] - place[:, None]
        squared = np.sum(away * away, axis=2, keepdims=True) + 0.1
        speed = speed + 1e-3 * np.sum(away / squared**1.5, axis=1)
        return place + 1e-3 * speed, speed

    return lw.fori_loop(0, steps, step, (place, speed))


def _rays(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return np.linspace(-0.6, 0.6, size), np.linspace(-0.6, 0.6, size)


FAR, NEAR = 20.0, 1e-4


def ray_marching_plain(xs: Any, ys: Any) -> Any:
    depths = np.zeros((len(ys), len(xs)))
    for row in range(len(ys)):
        for column in range(len(xs)):
            x, y = xs[column], ys[row]
            length = np.sqrt(x * x + y * y + 1.0)
            t, distance = 0.0, 1.0
            while distance > NEAR and t < FAR:
                scale = t / length
                ball = np.sqrt((x * scale) ** 2 + (y * scale) ** 2 + (scale - 3.0) ** 2) - 1.0
                distance = min(ball, y * scale + 1.5)
                t += distance
            depths[row, column] = t
    return depths


@program(ray_marching_plain, _rays, small=6, large=96, tolerance=1e-9, arrays=9216)
def ray_marching(xs: Any, ys: Any) -> Any:
    """How far rays go until they meet a ball or the floor; all of them at once."""
    x, y = xs[None, :], ys[:, None]
    length = np.sqrt(x * x + y * y + 1.0)

    def march(state: Any) -> Any:
        t, distance = state
        scale = t / length
        ball = np.sqrt((x * scale) ** 2 + (y * scale) ** 2 + (scale - 3.0) ** 2) - 1.0
        going = (distance > NEAR) & (t < FAR)
        distance = np.where(going, np.minimum(ball, y * scale + 1.5), distance)
        return np.where(going, t + distance, t), distance

    def any_going(state: Any) -> Any:
        t, distance = state
        return np.any((distance > NEAR) & (t < FAR))

    return lw.while_loop(any_going, march, (np.zeros_like(length), np.ones_like(length)))[0]
