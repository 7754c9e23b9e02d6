from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.model.cost_model import (
    JudgedModel,
    LinearModel,
    TrainingSet,
    XGBoostModel,
    available_model,
    rank_labels,
)
from loopwright.autotune.model.quality import pairwise_accuracy, recall_at

from bench.standins import SyntheticSpace, UntrainedModel

SPACE = SyntheticSpace()
OTHER = SyntheticSpace((1024, 96, 300))


def measured(space: SyntheticSpace, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = space.sample(count, np.random.default_rng(seed))
    return space.features(rows), space.seconds(rows)


@pytest.mark.parametrize(("kind", "least"), [(XGBoostModel, 0.93), (LinearModel, 0.8)])
def test_models_rank_unseen_candidates(kind: type, least: float) -> None:
    model = kind()
    features, costs = measured(SPACE, 500, 0)
    assert not model.trained
    assert (model.predict(features) == 0).all()
    model.update("task", features, costs)
    unseen, true = measured(SPACE, 500, 1)
    assert model.trained
    assert pairwise_accuracy(model.predict(unseen), true) > least


def test_what_is_learnt_on_one_task_helps_on_another() -> None:
    model = XGBoostModel()
    model.update("a", *measured(SPACE, 400, 0))
    model.update("b", *measured(SyntheticSpace((512, 128, 512)), 400, 1))
    unseen, true = measured(OTHER, 300, 2)
    assert pairwise_accuracy(model.predict(unseen), true) > 0.95
    model.update("c", *measured(OTHER, 150, 3))
    assert pairwise_accuracy(model.predict(unseen), true) > 0.95


def test_failures_are_ranked_last() -> None:
    features, costs = measured(SPACE, 400, 0)
    packed = features[:, 9] == features[:, 9].max()
    costs[packed] = np.inf
    model = XGBoostModel()
    model.update("task", features, costs)
    unseen, _ = measured(SPACE, 200, 1)
    fails = unseen[:, 9] == features[:, 9].max()
    predicted = model.predict(unseen)
    assert predicted[fails].max() < np.median(predicted[~fails])


def test_a_saved_model_goes_on(tmp_path: Path) -> None:
    model = XGBoostModel()
    with pytest.raises(ValueError, match="untrained"):
        model.save(tmp_path / "model.ubj", 1)
    model.update("a", *measured(SPACE, 300, 0))
    model.save(tmp_path / "model.ubj", 1)
    again = XGBoostModel()
    assert not again.load(tmp_path / "model.ubj", 2)
    assert not again.trained
    assert again.load(tmp_path / "model.ubj", 1)
    unseen, true = measured(SPACE, 300, 1)
    assert (again.predict(unseen) == model.predict(unseen)).all()
    start = pairwise_accuracy(again.predict(unseen), true)
    again.update("a", *measured(SPACE, 300, 2))
    assert pairwise_accuracy(again.predict(unseen), true) > start
    again.save(tmp_path / "both.ubj", 1)
    both = XGBoostModel()
    assert both.load(tmp_path / "both.ubj", 1)
    np.testing.assert_allclose(both.predict(unseen), again.predict(unseen), atol=1e-5)


def test_features_of_another_length_are_refused() -> None:
    model = XGBoostModel()
    model.update("a", *measured(SPACE, 50, 0))
    with pytest.raises(ValueError, match="3 features, but the model knows 20"):
        model.predict(np.zeros((4, 3), np.float32))


def test_the_judge_asks_before_it_tells() -> None:
    model = JudgedModel(XGBoostModel())
    model.update("task", *measured(SPACE, 200, 0))
    assert model.quality() is None
    model.update("task", *measured(SPACE, 64, 1))
    quality = model.quality()
    assert quality is not None
    assert quality.candidates == 64 and quality.pairwise > 0.85
    assert "unseen candidates" in str(quality)


def test_a_broken_model_is_replaced_and_tuning_goes_on() -> None:
    class Broken(UntrainedModel):
        def update(self, group: str, features: np.ndarray, costs: np.ndarray) -> None:
            raise AttributeError("train() got an unexpected keyword")

    model = JudgedModel(Broken())
    model.update("task", *measured(SPACE, 100, 0))
    assert model.failure == "AttributeError: train() got an unexpected keyword"
    assert model.trained


def test_labels_are_comparable_between_tasks() -> None:
    costs = np.array([2e-3, 1e-3, 1.0, np.inf])
    assert rank_labels(costs).tolist() == rank_labels(costs * 1000).tolist() == [0.75, 1, 0.5, 0]
    assert (rank_labels(np.array([np.inf, np.inf])) == 0).all()


def test_the_task_at_hand_is_never_crowded_out() -> None:
    data = TrainingSet(limit=30)
    for group in "abc":
        data.add(group, np.full((20, 2), ord(group)), np.ones(20))
    features, labels = data.arrays("a")
    assert len(data) == 60 and len(labels) == 30
    assert (features[:20] == ord("a")).all() and (features[20:] == ord("c")).all()
    assert len(TrainingSet(3).arrays("a")[0]) == 0


def test_what_is_learnt_while_tuning_tells_good_from_good() -> None:
    """Half of the label of a live sample is its distance to the best: ranks alone call the second
    best of ten as good whether it takes 1 % or 100 % longer."""
    data = TrainingSet(limit=30)
    for group, second in (("close", 1.01), ("far", 2.0)):
        data.add(group, np.zeros((10, 2)), np.array([1.0, second, *[4.0] * 8]))
    close, far = data.arrays("close")[1][1], data.arrays("far")[1][1]
    assert close > 0.9 > 0.6 > far


def test_quality_on_small_cases() -> None:
    costs = np.array([1.0, 2.0, np.inf])
    assert pairwise_accuracy(np.array([3.0, 2.0, 1.0]), costs) == 1.0
    assert pairwise_accuracy(np.zeros(3), costs) == 0.5
    assert np.isnan(pairwise_accuracy(np.zeros(2), np.full(2, np.inf)))
    assert recall_at(np.array([1.0, 2.0, 3.0]), costs, 1) == 0.0
    assert np.isnan(recall_at(np.zeros(0), np.zeros(0), 3))
    near = np.array([1.0, 1.04, 2.0])
    assert pairwise_accuracy(np.array([2.0, 3.0, 1.0]), near) == pytest.approx(2 / 3)
    assert pairwise_accuracy(np.array([2.0, 3.0, 1.0]), near, 1.05) == 1.0


def test_xgboost_is_loaded_by_training_only() -> None:
    program = (
        "import sys; from loopwright.autotune.model.cost_model import available_model;"
        "model = available_model(); assert type(model).__name__ == 'XGBoostModel';"
        "assert 'xgboost' not in sys.modules and 'tqdm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert not available_model().trained
