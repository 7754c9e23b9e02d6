"""A small network learns the right side of a differential equation from its solutions.

The equation is that of a damped oscillator whose spring is cubic: x' = v, v' = -x**3 - 0.1 v. Given
are 32 solutions at 25 times. The network stands for the right side; the loss compares what the
integrator makes of it with the solutions, and its gradient goes back through all steps (Chen and
others, 2018)::

    lw.scan          takes steps after Runge and Kutta
    lw.vmap          solutions side by side
    lw.fori_loop     over Adam's steps: a hundred of them are one native call

    python -m examples.neural_ode
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np

STEP, TIMES, SOLUTIONS, WIDTH = 0.1, 25, 32, 32


def truth(_: Any, s: Any) -> Any:
    return np.stack([s[1], -(s[0] ** 3) - 0.1 * s[1]])


def network(params: Any, s: Any) -> Any:
    hidden = np.tanh(s @ params["w1"] + params["b1"])
    return np.tanh(hidden @ params["w2"] + params["b2"]) @ params["w3"]


def solve(side: Any, params: Any, begin: Any, times: int) -> Any:
    """Returns the solution that begins there, float64[times, 2]."""

    def step(s: Any, _: Any) -> Any:
        k1 = side(params, s)
        k2 = side(params, s + STEP / 2 * k1)
        k3 = side(params, s + STEP / 2 * k2)
        k4 = side(params, s + STEP * k3)
        return (s + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4),) * 2

    return lw.scan(step, begin, length=times)[1]


def loss(params: Any, begins: Any, solutions: Any) -> Any:
    paths = lw.vmap(lambda begin: solve(network, params, begin, TIMES))(begins)
    return ((paths - solutions) ** 2).mean()


optimiser = lw.optim.adam(lambda step: 1e-2 * 0.998**step)


@lw.compile(donate_argnames=("params", "state"))
def train(params: Any, state: Any, begins: Any, solutions: Any) -> Any:
    """Returns parameters, state and loss after 100 steps."""

    def step(_: Any, carry: Any) -> Any:
        params, state, _ = carry
        value, grads = lw.value_and_grad(loss)(params, begins, solutions)
        changes, state = optimiser.update(grads, state, params)
        return lw.optim.apply(params, changes), state, value

    return lw.fori_loop(0, 100, step, (params, state, 0.0))


def main(rounds: int = 15) -> float:
    """Returns the error on solutions that are new and twice as long."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (2, WIDTH), "w2": (WIDTH, WIDTH), "w3": (WIDTH, 2)}
    params = {n: rng.standard_normal(s) / np.sqrt(s[0]) for n, s in shapes.items()}
    params |= {"b1": np.zeros(WIDTH), "b2": np.zeros(WIDTH)}
    state = optimiser.init(params)
    true = lw.compile(lw.vmap(lambda begin: solve(truth, None, begin, 2 * TIMES)))
    begins, others = rng.uniform(-1.5, 1.5, (2, SOLUTIONS, 2))
    solutions = true(begins)[:, :TIMES]
    for n in range(rounds):
        begin = time.perf_counter()
        params, state, value = train(params, state, begins, solutions)
        print(f"{100 * (n + 1):5} steps   loss {value:.2e} {time.perf_counter() - begin:9.3f} s")
    longer = lw.vmap(lambda begin: solve(network, params, begin, 2 * TIMES))(others)
    error = float(np.sqrt(((longer - true(others)) ** 2).mean()))
    print(f"new solutions, twice as long: off by {error:.4f} on average")
    return error


if __name__ == "__main__":
    main()
