"""The direction in which a matrix stretches most, by power iteration: a loop until nothing changes.

docs/architecture.md follows it through the levels. Run it: ``python examples/dominant.py``.
"""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np


def dominant(a: Any) -> Any:
    """The eigenvector of a symmetric matrix's greatest eigenvalue: float32[n, n] -> float32[n], and
    the number of steps."""

    def improve(state: Any) -> Any:
        v, _, steps = state
        w = a @ v
        w = w / np.sqrt((w * w).sum())
        return w, np.abs(w - v).max(), steps + 1

    start = np.full(len(a), len(a) ** -0.5, np.float32), np.float32(1), 0
    v, _, steps = lw.while_loop(lambda state: state[1] > 1e-6, improve, start)
    return v, steps


_rng = np.random.default_rng(0)
_factor = _rng.random((48, 48), np.float32)
example_inputs = (_factor @ _factor.T,)

if __name__ == "__main__":
    v, steps = lw.compile(dominant)(*example_inputs)
    stretched = example_inputs[0] @ v
    print(f"{steps} steps, stretched by {np.linalg.norm(stretched):.4g}")
