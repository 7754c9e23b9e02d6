"""A physics-informed network solves Poisson's equation: u'' = -pi**2 sin(pi x), u(0) = u(1) = 0.

No solution is given: the loss is what the equation leaves over at 64 places. So it contains a
second derivative by x, and training needs its gradient by the weights (Raissi and others, 2019).
The boundary values hold by construction. The solution is sin(pi x)::

    lw.grad(lw.grad(u))    the second derivative at one place
    lw.vmap                at all of them
    lw.value_and_grad      of the loss, a third derivative
    lw.fori_loop           over Adam's steps: 500 of them are one native call

    python -m examples.pinn
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np

WIDTH = 24


def u(x: Any, params: Any) -> Any:
    """The network at one place: it is 0 on the boundary, whatever its weights are."""
    hidden = np.tanh(x * params["w1"] + params["b1"])
    hidden = np.tanh(hidden @ params["w2"] + params["b2"])
    return x * (1 - x) * (hidden @ params["w3"])


def loss(params: Any, places: Any) -> Any:
    """The mean square of u'' + pi**2 sin(pi x)."""
    curvature = lw.vmap(lw.grad(lw.grad(u)), in_axes=(0, None))(places, params)
    return ((curvature + np.pi**2 * np.sin(np.pi * places)) ** 2).mean()


optimiser = lw.optim.adam(lambda step: 1e-2 * 0.999**step)


@lw.compile(donate_argnames=("params", "state"))
def train(params: Any, state: Any, places: Any) -> Any:
    """Returns parameters, state and loss after 500 steps."""

    def step(_: Any, carry: Any) -> Any:
        params, state, _ = carry
        value, grads = lw.value_and_grad(loss)(params, places)
        changes, state = optimiser.update(grads, state, params)
        return lw.optim.apply(params, changes), state, value

    return lw.fori_loop(0, 500, step, (params, state, 0.0))


def main(rounds: int = 6) -> float:
    """Returns the greatest error of the solution."""
    rng = np.random.default_rng(0)
    params = {
        "w1": rng.standard_normal(WIDTH) * 2,
        "b1": rng.standard_normal(WIDTH),
        "w2": rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH),
        "b2": np.zeros(WIDTH),
        "w3": rng.standard_normal(WIDTH) / np.sqrt(WIDTH),
    }
    state = optimiser.init(params)
    places, everywhere = np.linspace(0, 1, 64), np.linspace(0, 1, 501)
    solution = lw.compile(lw.vmap(u, in_axes=(0, None)))
    error = np.inf
    print("steps   loss       greatest error   seconds")
    for n in range(rounds):
        begin = time.perf_counter()
        params, state, value = train(params, state, places)
        seconds = time.perf_counter() - begin
        error = float(np.abs(solution(everywhere, params) - np.sin(np.pi * everywhere)).max())
        print(f"{500 * (n + 1):5}   {value:.2e} {error:14.2e} {seconds:13.3f}")
    return error


if __name__ == "__main__":
    main()
