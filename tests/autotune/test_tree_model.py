"""A model read by NumPy alone says what XGBoost says of the same file."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.model.cost_model import XGBoostModel
from loopwright.autotune.model.shipped import read_model, sample_logs, shipped_model
from loopwright.autotune.model.tree_model import ModelFileError, TreeModel
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.space.feature_list import FEATURE_NAMES, FEATURE_VERSION

from bench.standins import SyntheticSpace


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    space = SyntheticSpace()
    rows = space.sample(300, np.random.default_rng(0))
    model = XGBoostModel()
    model.learn([(space.features(rows), space.seconds(rows), "here")] * 2)
    path = tmp_path_factory.mktemp("model") / "model.json"
    model.save(path, FEATURE_VERSION + 1, ["x86-64-v4", "x86-64"])
    return path


def test_it_predicts_what_xgboost_predicts(saved: Path) -> None:
    space = SyntheticSpace((512, 96, 300))
    features = space.features(space.sample(700, np.random.default_rng(1)))
    ours = TreeModel.load(saved)
    theirs = XGBoostModel()
    assert theirs.load(saved, FEATURE_VERSION + 1)
    assert np.allclose(ours.predict(features), theirs.predict(features), atol=1e-5)
    assert ours.feature_version == FEATURE_VERSION + 1 and ours.levels == {"x86-64-v4", "x86-64"}
    assert len(ours.predict(features[:0])) == 0
    with pytest.raises(ValueError, match="3 features, but the model knows 20"):
        ours.predict(np.zeros((2, 3), np.float32))


def test_the_members_of_a_model_disagree_and_their_mean_is_its_prediction(saved: Path) -> None:
    space = SyntheticSpace((512, 96, 300))
    features = space.features(space.sample(200, np.random.default_rng(1)))
    model = TreeModel.load(saved)
    opinions = model.opinions(features)
    assert opinions.shape == (DEFAULT_SETTINGS.members, 200)
    assert np.allclose(opinions.mean(axis=0), model.predict(features), atol=1e-6)
    assert (opinions.std(axis=0) > 0).any()
    data = json.loads(model.source)
    data["learner"]["attributes"]["loopwright_members"] = "7"
    with pytest.raises(ModelFileError, match="trees are not those of 7 members"):
        TreeModel.from_json(json.dumps(data))


def test_going_on_from_a_read_model(saved: Path) -> None:
    space = SyntheticSpace((512, 96, 300))
    rows = space.sample(400, np.random.default_rng(1))
    features, seconds = space.features(rows), space.seconds(rows)
    read = TreeModel.load(saved)
    model = XGBoostModel()
    model.start_from(read)
    assert model.trained and read.name in model.origin
    before = model.predict(features)
    assert np.allclose(before, read.predict(features), atol=1e-5)
    model.update("task", features, seconds)
    best = np.argsort(seconds)[:40]
    assert model.predict(features)[best].mean() > before[best].mean()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("learner"),
        lambda data: data["learner"]["attributes"].clear(),
        lambda data: data["learner"]["gradient_booster"]["model"]["trees"].clear(),
        lambda data: data["learner"]["gradient_booster"]["model"]["trees"][0][
            "left_children"
        ].__setitem__(1, 0),
        lambda data: data["learner"]["gradient_booster"]["model"]["trees"][0][
            "left_children"
        ].__setitem__(0, 10**6),
        lambda data: data["learner"]["learner_model_param"].update(num_feature="2"),
    ],
)
def test_a_damaged_file_is_refused(saved: Path, damage: object, tmp_path: Path) -> None:
    data = json.loads(saved.read_text())
    damage(data)  # type: ignore[operator]
    with pytest.raises(ModelFileError, match="no model"):
        TreeModel.from_json(json.dumps(data))
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data))
    assert "no model" in str(read_model(path))


def test_another_version_of_the_features_is_refused(saved: Path, tmp_path: Path) -> None:
    found = read_model(saved)
    assert found.model is None
    assert f"knows features of version {FEATURE_VERSION + 1}, these are {FEATURE_VERSION}" in str(
        found
    )
    assert "cannot be read" in str(read_model(tmp_path / "none.json"))
    (tmp_path / "torn.json").write_bytes(saved.read_bytes()[:1000])
    assert "no model" in str(read_model(tmp_path / "torn.json"))


def test_the_shipped_model_is_there_small_and_of_these_features() -> None:
    found = shipped_model()
    assert found.model is not None, found
    assert found.model.features == len(FEATURE_NAMES)
    assert len(zlib.compress(found.model.source)) < 500_000  # as in the wheel
    assert sum(path.stat().st_size for path in sample_logs()) < 10_000_000
    assert sample_logs()


def test_reading_loads_no_xgboost() -> None:
    program = (
        "import sys; from loopwright.autotune.model.shipped import shipped_model;"
        "assert shipped_model().model is not None; assert 'xgboost' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
