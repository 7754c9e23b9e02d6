"""Quality of a cost model: pairwise accuracy and recall@k on candidates it has not seen."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np

from ...ir.dataclass import dataclass
from ..protocols import FloatArray


@dataclass(frozen=True, slots=True)
class ModelQuality:
    """``candidates`` were predicted before they were measured; ``k`` belongs to ``recall``;
    ``clear`` is the accuracy on pairs that differ by more than 5 %, and ``best`` that on such pairs
    of the fastest tenth, if they were asked for."""

    candidates: int
    pairwise: float
    recall: float
    k: int
    clear: float | None = None
    best: float | None = None

    @property
    def is_judged(self) -> bool:
        """True if two candidates differed in speed; otherwise there is no order to predict."""
        return not math.isnan(self.pairwise)

    def __str__(self) -> str:
        if not self.is_judged:
            return f"not judged: {self.candidates} unseen candidates have no order"
        clear = "" if self.clear is None else f" ({self.clear:.3f} of pairs 5 % apart)"
        return (
            f"pairwise accuracy {self.pairwise:.3f}{clear}, recall@{self.k} {self.recall:.3f} "
            f"on {self.candidates} unseen candidates"
        )


def pairwise_accuracy(predicted: FloatArray, costs: FloatArray, apart: float = 1.0) -> float:
    """Returns the share of pairs put in the right order; ties of the prediction count half.

    ``predicted`` float[n], higher is faster; ``costs`` float[n] in seconds, inf: failed. Pairs
    whose costs differ by no more than the factor ``apart`` are left out, as noise may have ordered
    them. Returns nan if no pair is left.

    >>> pairwise_accuracy(np.array([3.0, 2.0, 1.0]), np.array([1.0, 3.0, 2.0]))
    0.6666666666666666
    """
    first, second = np.triu_indices(len(costs), 1)
    faster = costs[first] < costs[second]
    low, high = np.minimum(costs[first], costs[second]), np.maximum(costs[first], costs[second])
    differ = high > low * apart
    if not differ.any():
        return float("nan")
    agrees = predicted[first] > predicted[second]
    tied = predicted[first] == predicted[second]
    return float(np.where(tied, 0.5, agrees == faster)[differ].mean())


def recall_at(predicted: FloatArray, costs: FloatArray, k: int) -> float:
    """Returns the share of the ``k`` fastest that are among the ``k`` best predicted.

    >>> recall_at(np.array([3.0, 2.0, 1.0]), np.array([1.0, 3.0, 2.0]), 2)
    0.5
    """
    k = min(k, len(costs))
    if not k:
        return float("nan")
    fastest = np.argsort(costs, kind="stable")[:k]
    chosen = np.argsort(-predicted, kind="stable")[:k]
    return len(np.intersect1d(fastest, chosen)) / k


def as_data(quality: ModelQuality | None) -> dict[str, float | None] | None:
    """Returns the quality as the log stores it, None without one."""
    return None if quality is None else asdict(quality)
