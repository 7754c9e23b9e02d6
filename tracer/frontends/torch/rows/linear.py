"""Matrix products."""

from __future__ import annotations

import numpy as np

from ..table import Value, aten

aten("mm.default", "bmm.default", "mv.default", "dot.default")(lambda *xs: np.matmul(*xs))


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _combined(self: Value, *factors: Value, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * self + alpha * product``; ``self`` is not looked at where beta is 0."""
    product = np.matmul(*factors)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return scaled + (self if beta == 1 else self * beta)
