"""Three stars from rest: a simulation with steps of its own choice, in one native call.

Burrau's problem (Burrau, 1913): masses of 3, 4 and 5 begin at rest, each opposite to the side of
that length of a right triangle. They pass each other so closely that the size of a step has to
change by four orders of magnitude; after 60 units of time one of them leaves for ever. The solver
is that of Dormand and Prince (1980), of order 5 with an error estimate of order 4. It is plain
NumPy, apart from its loop: how many steps there are, and which of them count, depends on values::

    lw.while_loop    takes steps until the time is over
    lw.cond          keeps a step that is good enough
    track[n] = ...   writes the places of the stars in an array that the loop carries

The same function runs as Python, too; it prints how long either takes, and the paths.

    python -m examples.three_body [--until 60]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import loopwright as lw
import numpy as np

MASSES = np.array([3.0, 4.0, 5.0])
START = np.array([[1.0, 3.0], [-2.0, -1.0], [1.0, -1.0]])
MOST_STEPS = 20_000

# The tableau of Dormand and Prince: what each slope is computed from, and the error of the step.
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def slope(state: Any) -> Any:
    """Velocities and accelerations, for ``state[0]`` the places and ``state[1]`` the velocities."""
    places, velocities = state[0], state[1]
    apart = places[None, :] - places[:, None]
    squares = (apart**2).sum(axis=-1) + np.eye(3)
    pulls = (MASSES[None, :, None] * apart / squares[..., None] ** 1.5).sum(axis=1)
    return np.stack([velocities, pulls])


def energy(state: Any) -> float:
    """The energy of the stars, which does not change."""
    places, velocities = state[0], state[1]
    pairs = [(0, 1), (0, 2), (1, 2)]
    bound = sum(MASSES[a] * MASSES[b] / np.linalg.norm(places[a] - places[b]) for a, b in pairs)
    return float((MASSES[:, None] * velocities**2).sum() / 2 - bound)


def simulate(state: Any, until: float, tolerance: float) -> Any:
    """Returns the last state, float64[2, 3, 2], the number of steps taken and tried, and where the
    stars were after each, float64[20000, 3, 2]."""
    track = np.zeros((MOST_STEPS, 3, 2))

    def goes_on(carry: Any) -> Any:
        now, _, _, taken, _ = carry
        return (now < until) & (taken < MOST_STEPS)

    def step(carry: Any) -> Any:
        now, state, size, taken, tried = carry
        size = np.minimum(size, until - now)
        slopes = [slope(state)]
        for factors in STAGES:
            new = state + size * sum(f * k for f, k in zip(factors, slopes))
            slopes.append(slope(new))
        error = size * sum(f * k for f, k in zip(ERROR, slopes))
        worst = np.max(np.abs(error)) / tolerance

        def keep() -> Any:
            track[taken] = new[0]
            return now + size, new, taken + 1

        now, state, taken = lw.cond(worst <= 1, keep, lambda: (now, state, taken))
        return now, state, size * np.clip(0.9 * worst**-0.2, 0.2, 5.0), taken, tried + 1

    _, state, _, taken, tried = lw.while_loop(goes_on, step, (0.0, state, 1e-3, 0, 0))
    return state, taken, tried, track


def picture(track: Any, width: int = 72, height: int = 28) -> str:
    """The paths of the stars in characters: 3, 4 and 5 by their masses."""
    low, high = track.min(axis=(0, 1)), track.max(axis=(0, 1))
    cells = ((track - low) / (high - low) * [width - 1, height - 1]).astype(int)
    page = np.full((height, width), " ")
    for star in range(3):
        page[height - 1 - cells[:, star, 1], cells[:, star, 0]] = "345"[star]
    return "\n".join("".join(line).rstrip() for line in page)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--until", type=float, default=60.0, help="end of the simulation")
    until = parser.parse_args(arguments).until
    state = np.stack([START, np.zeros((3, 2))])
    compiled = lw.compile(simulate)
    compiled(state, until, 1e-10)  # makes the code

    begin = time.perf_counter()
    end, taken, tried, track = compiled(state, until, 1e-10)
    seconds = time.perf_counter() - begin
    print(picture(track[:taken]))
    print(f"{taken} steps of {tried} tried, {seconds * 1e3:.2f} ms compiled, ", end="", flush=True)
    begin = time.perf_counter()
    simulate(state, until, 1e-10)
    print(f"{time.perf_counter() - begin:.2f} s as Python")
    print(f"energy at the start {energy(state):.9f}, at the end {energy(end):.9f}")


if __name__ == "__main__":
    main()
