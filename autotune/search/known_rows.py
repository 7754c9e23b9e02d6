"""Features and scores of rows, computed once: one batch after the other meets the same rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..protocols import FloatArray, Population, SearchSpace

_LIMIT = 8192
"""Rows that are remembered, about 4 MB: those of some batches. Then it starts anew."""


class KnownRows:
    """The features of a space's rows, and their scores until the model has learnt."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._start()

    def _start(self) -> None:
        self._place: dict[bytes, int] = {}
        self._features = np.empty((0, 0), np.float32)
        self.forget_scores()

    def forget_scores(self) -> None:
        """To be called after the model has learnt."""
        self._scores = np.full(len(self._features), np.nan, np.float32)

    def features(self, rows: Population) -> FloatArray:
        """float32[n, F] of int32[n, K]."""
        if not len(rows):
            return self._space.features(rows)
        places = self._places(rows)
        return self._features[places]

    def scores(
        self, rows: Population, predict: Callable[[FloatArray], FloatArray]
    ) -> npt.NDArray[np.float32]:
        """float32[n] of int32[n, K]: what ``predict`` says of their features."""
        if not len(rows):
            return np.empty(0, np.float32)
        places = self._places(rows)
        asked = np.unique(places[np.isnan(self._scores[places])])
        if len(asked):
            self._scores[asked] = predict(self._features[asked])
        return self._scores[places]

    def _places(self, rows: Population) -> npt.NDArray[np.int64]:
        """int64[n]: where the rows are; new ones are added."""
        text, width = np.ascontiguousarray(rows, np.int32).tobytes(), 4 * rows.shape[1]
        keys = [text[start : start + width] for start in range(0, len(text), width)]
        new = dict.fromkeys(key for key in keys if key not in self._place)
        if new and len(self._place) + len(new) > _LIMIT:
            self._start()
            new = dict.fromkeys(keys)
        if new:
            made = np.frombuffer(b"".join(new), np.int32).reshape(len(new), -1)
            features = self._space.features(made)
            old = self._features if self._place else features[:0]
            self._place.update({key: len(old) + n for n, key in enumerate(new)})
            self._features = np.concatenate([old, features])
            self._scores = np.append(self._scores, np.full(len(new), np.nan, np.float32))
        return np.array([self._place[key] for key in keys], np.int64)
