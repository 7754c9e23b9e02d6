"""What pyproject.toml depends on, for pip; and a run with the lowest versions of it.

`lowest` prints the lowest versions that are allowed, `run` tries them with the demo in short:
compile, compare with NumPy, tune, and reuse the log. `with EXTRA` prints the dependencies and those
of an extra, with xgboost as the distribution without GPU code: the same module in 6 MB, not 700.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def lowest() -> dict[str, str]:
    """The lowest version of each dependency, for this Python."""
    from pip._vendor.packaging.requirements import Requirement

    found: dict[str, str] = {}
    for line in PROJECT["dependencies"]:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            (bound,) = requirement.specifier
            assert bound.operator == ">=", line
            found[requirement.name] = bound.version
    return found


def with_extra(extra: str) -> list[str]:
    """The requirements of the package with an extra, for processors only."""
    lines = [*PROJECT["dependencies"]]
    pending = [extra]
    for name in pending:
        for line in PROJECT["optional-dependencies"][name]:
            if line.startswith("loopwright["):
                pending += line.removeprefix("loopwright[").removesuffix("]").split(",")
            else:
                lines.append(line)
    return [f"xgboost-cpu{line[7:]}" if line.startswith("xgboost") else line for line in lines]


def run() -> None:
    """Raises if something does not work with what is installed, or that is not the lowest."""
    installed = {name: version(name) for name in lowest()}
    assert installed == lowest(), f"{installed} is not {lowest()}"
    import loopwright as lw
    import numpy as np

    def model(x, w, b, ids):
        h = np.maximum(x @ w + b, 0)
        return lw.nn.softmax(h), (h.sum(axis=0), w[ids].max(axis=-1), np.exp(-h[:, ::2]))

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((37, 64), (64, 48)))
    arguments = x, w, w[0], np.array([3, 0, -1])
    h = np.maximum(x @ w + w[0], 0)
    raised = np.exp(h - h.max(axis=-1, keepdims=True))
    wanted = [raised / raised.sum(axis=-1, keepdims=True), h.sum(axis=0)]
    wanted += [w[arguments[3]].max(axis=-1), np.exp(-h[:, ::2])]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        for tuned in (False, True):
            f = lw.compile(model, log=log)
            if not tuned:
                f(*arguments)
                f.tune(*arguments, trials=24, budget="8s")
            first, rest = f(*arguments)
            for found, want in zip((first, *rest), wanted, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
            assert log.stat().st_size > 1000, "nothing was tuned"
    import xgboost

    assert xgboost.DMatrix(x).num_row() == len(x)
    print("works with " + ", ".join(f"{name} {v}" for name, v in installed.items()))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lowest"]:
            print("\n".join(f"{name}=={number}" for name, number in lowest().items()))
        case ["with", extra]:
            print("\n".join(with_extra(extra)))
        case _:
            run()
