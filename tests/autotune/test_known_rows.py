"""Features and scores of rows that are computed once (autotune/search/known_rows.py)."""

from __future__ import annotations

import numpy as np
from loopwright.autotune.protocols import FloatArray, Population
from loopwright.autotune.search import known_rows
from loopwright.autotune.search.guided import GuidedSearch
from loopwright.autotune.search.known_rows import KnownRows
from loopwright.autotune.search.strategy import unique_rows
from pytest import MonkeyPatch

from bench.standins import SyntheticSpace


class Counting(SyntheticSpace):
    """Counts the rows whose features were asked for."""

    asked = 0

    def features(self, rows: Population) -> FloatArray:
        self.asked += len(rows)
        return super().features(rows)


def predict(features: FloatArray) -> FloatArray:
    return features.sum(axis=1, dtype=np.float32)


def test_features_are_those_of_the_space_in_the_order_of_the_rows() -> None:
    space = Counting()
    known, rows = KnownRows(space), space.sample(40, np.random.default_rng(0))
    known.features(rows[10:20])
    shuffled = np.concatenate([rows[::-1], rows[:5], rows[:5]])
    assert (known.features(shuffled) == SyntheticSpace().features(shuffled)).all()


def test_features_of_a_row_are_computed_once() -> None:
    space = Counting()
    known = KnownRows(space)
    rows = np.unique(space.sample(40, np.random.default_rng(0)), axis=0)
    known.features(np.concatenate([rows, rows]))
    known.scores(rows, predict)
    assert space.asked == len(rows)
    assert known.features(rows[:0]).shape[0] == 0 and len(known.scores(rows[:0], predict)) == 0


def test_scores_are_computed_once_until_the_model_has_learnt() -> None:
    space, asked = Counting(), list[int]()

    def counted(features: FloatArray) -> FloatArray:
        asked.append(len(features))
        return predict(features)

    rows = np.unique(space.sample(40, np.random.default_rng(0)), axis=0)
    known = KnownRows(space)
    first = known.scores(rows[:30], counted)
    both = known.scores(rows, counted)
    assert asked == [30, len(rows) - 30] and (both[:30] == first).all()
    assert (both == predict(SyntheticSpace().features(rows))).all()
    known.forget_scores()
    assert (known.scores(rows, lambda f: -predict(f)) == -both).all()


def test_beyond_the_limit_rows_are_computed_anew(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(known_rows, "_LIMIT", 30)
    space = Counting()
    known, rng = KnownRows(space), np.random.default_rng(0)
    for _ in range(3):
        rows = np.concatenate([space.sample(25, rng), space.default()])
        assert (known.features(rows) == SyntheticSpace().features(rows)).all()
        expected = predict(SyntheticSpace().features(rows))
        assert (known.scores(rows, predict) == expected).all()
    assert space.asked > 60


def test_spare_rows_come_behind_the_batch_and_were_not_measured() -> None:
    space, rng = SyntheticSpace(), np.random.default_rng(0)
    search = GuidedSearch(space)
    for rows in (space.default(), space.sample(60, rng)):
        search.observe(rows, space.seconds(rows))
    batch = search.propose(lambda rows: -space.seconds(rows), 8)
    both = np.concatenate([batch, search.spare])
    assert len(batch) == 8 and len(search.spare) >= 8
    assert len(unique_rows(both, search._memory)) == len(both)
    fastest = search.spare[np.argsort(space.seconds(search.spare), kind="stable")]
    assert (space.seconds(fastest) == space.seconds(search.spare)).mean() > 0.9  # best first
    queued = unique_rows(space.sample(12, rng), search._memory)
    search.suggest(queued)
    assert (search.propose(None, 4) == queued[:4]).all() and not len(search.spare)


def test_rows_of_one_score_do_not_stand_in_each_others_way() -> None:
    space = SyntheticSpace()
    search = GuidedSearch(space)
    search.observe(space.default(), space.seconds(space.default()))

    def score(rows: Population) -> FloatArray:
        return -np.round(np.log(space.seconds(rows)), 2)

    search.propose(score, 8)
    assert len({*score(search.spare[:16]).tolist()}) == 16
