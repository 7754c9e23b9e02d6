"""Converters of operators that compute element by element."""

from __future__ import annotations

import numpy as np

from ... import nn
from .table import Value, converter

converter("Add", since=7)(lambda x, y: np.add(x, y))
converter("Sub", since=7)(lambda x, y: np.subtract(x, y))
converter("Mul", since=7)(lambda x, y: np.multiply(x, y))
converter("Abs", since=6)(lambda x: np.abs(x))
converter("Neg", since=6)(lambda x: np.negative(x))


@converter("Relu", since=6)
def _relu(x: Value) -> Value:
    return nn.relu(x)
