"""A pendulum learns to stand: optimal control by the gradient of a simulation.

A motor too weak to lift the pendulum at once has 5 s to swing it up and hold it. Unknown are the
100 torques; the cost is the distance from the upright state at the end, a little of it on the way,
and the work. Its gradient goes back through the simulation::

    lw.scan             the simulation, a step for each torque
    lw.value_and_grad   of its cost by all torques at once
    lw.fori_loop        over Adam's steps, in one native call

    python -m examples.control
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np

SECONDS, TORQUES, GRAVITY, STRONGEST, FRICTION = 5.0, 100, 9.81, 4.0, 0.1
STEP = SECONDS / TORQUES


def simulate(torques: Any) -> Any:
    """Returns angle (0 hangs, pi stands) and speed after each step, float64[100, 2]."""

    def step(state: Any, torque: Any) -> Any:
        angle, speed = state
        pull = STRONGEST * np.tanh(torque) - GRAVITY * np.sin(angle) - FRICTION * speed
        speed = speed + STEP * pull
        angle = angle + STEP * speed
        return (angle, speed), np.stack([angle, speed])

    return lw.scan(step, (0.0, 0.0), torques)[1]


def cost(torques: Any) -> Any:
    path = simulate(torques)
    away = 1 + np.cos(path[:, 0]) + 0.05 * path[:, 1] ** 2  # 0 where it stands still
    return 50 * away[-10:].mean() + away.mean() + 0.02 * (np.tanh(torques) ** 2).mean()


@lw.compile(donate_argnames=("torques",))
def optimise(torques: Any, steps: Any) -> Any:
    """Returns better torques, and their cost."""
    optimiser = lw.optim.clipped(1.0, lw.optim.adam(lambda step: 0.05 * 0.998**step))

    def step(_: Any, carry: Any) -> Any:
        torques, state = carry
        changes, state = optimiser.update(lw.grad(cost)(torques), state, torques)
        return lw.optim.apply(torques, changes), state

    torques, _ = lw.fori_loop(0, steps, step, (torques, optimiser.init(torques)))
    return torques, cost(torques)


def main(steps: int = 1500) -> Any:
    """Returns angle and speed at the end."""
    torques = np.random.default_rng(0).standard_normal(TORQUES) * 0.1
    optimise(torques.copy(), 0)  # makes the code
    begin = time.perf_counter()
    torques, reached = optimise(torques, steps)
    seconds = time.perf_counter() - begin
    print(f"{steps} steps in {seconds:.3f} s, cost {reached:.4f}\n    s   torque   angle   speed")
    path = lw.compile(simulate)(torques)
    for n in range(9, TORQUES, 10):
        torque = STRONGEST * np.tanh(torques[n])
        print(f"{STEP * (n + 1):5.2f} {torque:8.3f} {path[n, 0]:7.3f} {path[n, 1]:7.3f}")
    return path[-1]


if __name__ == "__main__":
    main()
