"""A small classifier: the program that docs/architecture.md follows through every level."""

from __future__ import annotations

import loopwright as lw
import numpy as np

_rng = np.random.default_rng(0)
W1, B1 = _rng.standard_normal((96, 48), np.float32), _rng.standard_normal(48, np.float32)
W2, B2 = _rng.standard_normal((48, 16), np.float32), _rng.standard_normal(16, np.float32)


def classify(x):
    """Probabilities of sixteen classes: float32[n, 96] -> float32[n, 16]."""
    h = np.maximum(x @ W1 + B1, 0)
    return lw.nn.softmax(h @ W2 + B2)


example_inputs = (lw.f32[56, 96],)
