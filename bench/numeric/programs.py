"""Which programs there are: the modules of ``examples/numeric``, their inputs and tolerances."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ..loops.program import Program

__all__ = ["PROGRAMS"]

_ROUNDING, _ITERATED = 1e-12, 1e-9  # what differs by the order of additions, and what adds it up
_SINGLE = 1e-4  # the same for float32

# Name, family, size of the inputs in tests, relative tolerance (0 where results are integers).
_ROWS = (
    ("adam", "learning", 20, _ITERATED),
    ("asian_option", "finance", 30, _ROUNDING),
    ("attention", "learning", 12, _SINGLE),
    ("bellman_ford", "graphs", 20, _ROUNDING),
    ("bilateral_filter", "images", 12, _SINGLE),
    ("binomial_tree", "finance", 3, _ITERATED),
    ("black_scholes", "finance", 50, _ROUNDING),
    ("bootstrap", "statistics", 20, _ROUNDING),
    ("conjugate_gradient", "linear algebra", 12, _ITERATED),
    ("convolution", "learning", 8, _SINGLE),
    ("crank_nicolson", "finance", 30, _ITERATED),
    ("edge_detection", "images", 24, 0.0),
    ("edit_distance", "signals", 30, 0.0),
    ("equalisation", "images", 16, 0.0),
    ("equaliser", "signals", 50, _ITERATED),
    ("fft_convolution", "signals", 200, _ROUNDING),
    ("floyd_warshall", "graphs", 20, _ROUNDING),
    ("game_of_life", "simulation", 16, 0.0),
    ("garch", "finance", 40, _ITERATED),
    ("gaussian_mixture", "statistics", 60, _ITERATED),
    ("gaussian_process", "statistics", 12, _ITERATED),
    ("gray_scott", "simulation", 24, _SINGLE),
    ("heat_equation", "simulation", 16, _ROUNDING),
    ("hough", "images", 50, 0.0),
    ("householder_qr", "linear algebra", 60, _ITERATED),
    ("ising", "Monte Carlo", 8, 0.0),
    ("jacobi", "linear algebra", 20, _ITERATED),
    ("jpeg", "images", 16, _ROUNDING),
    ("k_means", "learning", 100, _ITERATED),
    ("kalman_filter", "signals", 30, _ITERATED),
    ("kernel_density", "statistics", 40, _ROUNDING),
    ("lattice_boltzmann", "simulation", 20, _ITERATED),
    ("logistic_regression", "statistics", 60, _ITERATED),
    ("lorenz_rk4", "simulation", 10, _ITERATED),
    ("lstm", "learning", 5, _SINGLE),
    ("mandelbrot", "simulation", 12, 0.0),
    ("markowitz", "finance", 60, _ITERATED),
    ("metropolis", "Monte Carlo", 6, _ITERATED),
    ("n_body", "simulation", 12, _ITERATED),
    ("nearest_neighbours", "learning", 40, 0.0),
    ("pagerank", "graphs", 30, _ITERATED),
    ("pca", "learning", 80, _ITERATED),
    ("permutation_test", "statistics", 20, _ROUNDING),
    ("ray_marching", "images", 10, _ITERATED),
    ("schrodinger", "simulation", 32, _ITERATED),
    ("sinkhorn", "statistics", 20, _ITERATED),
    ("softmax_regression", "learning", 50, _SINGLE),
    ("total_variation", "images", 12, _ITERATED),
    ("value_iteration", "learning", 10, _ITERATED),
    ("viterbi", "signals", 40, _ROUNDING),
    ("wave_equation", "simulation", 16, _ITERATED),
    ("welch", "signals", 2000, _ROUNDING),
)


def _program(name: str, family: str, small: int, tolerance: float) -> Program:
    module = importlib.import_module(f"examples.numeric.{name}")
    function = inspect.unwrap(getattr(module, name))
    large = inspect.signature(module.inputs).parameters["size"].default

    def inputs(size: int, _: Any) -> tuple[Any, ...]:
        return module.inputs(size)

    return Program(name, family, function, function, inputs, small, large, tolerance, arrays=1)


PROGRAMS = {row[0]: _program(*row) for row in _ROWS}
"""The programs by name. They are their own oracle, run by NumPy."""
