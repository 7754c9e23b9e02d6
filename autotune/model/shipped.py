"""The cost model that ships with the package, and the samples it was trained on.

It is a plain file that ``python -m tools.train`` makes. One whose features are of another version
is refused; the rules, and models trained on the spot, do without.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from ...ir.dataclass import dataclass
from ..space.feature_list import FEATURE_VERSION
from .tree_model import ModelFileError, TreeModel

MODEL_FILE = "model.json"


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """The model, or None and why there is none, in a few words."""

    model: TreeModel | None
    reason: str = ""

    def __str__(self) -> str:
        if self.model is None:
            return f"no cost model: {self.reason}"
        return f"cost model of {self.model.count} trees"


@cache
def shipped_model() -> ShippedModel:
    """Returns the model of this installation, which is read once."""
    return read_model(_folder() / MODEL_FILE)


def read_model(path: Path) -> ShippedModel:
    """Reads a model file; without a model if it does not fit the features of this version."""
    try:
        model = TreeModel.load(path)
    except OSError as error:
        return ShippedModel(None, f"{path.name} cannot be read ({error.strerror})")
    except ModelFileError as error:
        return ShippedModel(None, f"{path.name} holds {error}")
    if model.feature_version != FEATURE_VERSION:
        reason = f"{path.name} knows features of version {model.feature_version}"
        return ShippedModel(None, f"{reason}, these are {FEATURE_VERSION}")
    return ShippedModel(model)


def sample_logs() -> tuple[Path, ...]:
    """The logs that the model was trained on."""
    return tuple(sorted((_folder() / "samples").glob("*.jsonl")))


def _folder() -> Path:
    return Path(str(files("loopwright.tuning_logs")))
