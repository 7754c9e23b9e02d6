"""What a wheel holds is listed by hand in pyproject.toml; nothing may be missing there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import repo_sources as sources
from loopwright.ir.floors import FLOORS

PROJECT = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())


def test_the_floors_are_those_of_the_package() -> None:
    lowest: dict[str, set[tuple[int, ...]]] = {}
    for line in PROJECT["project"]["dependencies"]:
        name, bound = re.fullmatch(r"(\w+)>=([\d.]+).*", line).groups()
        lowest.setdefault(name, set()).add(tuple(map(int, bound.split(".")[:2])))
    assert {name: min(versions) for name, versions in lowest.items()} == FLOORS


@pytest.mark.parametrize("name", FLOORS)
def test_an_older_dependency_is_a_sentence(name: str) -> None:
    """As the import of it finds it, wherever that is."""
    code = f"""
import {name}
{name}.__version__ = "0.44.0"
import sys
import loopwright
from loopwright.autotune import progress
from loopwright.autotune.model import cost_model
cost_model._xgboost() if "{name}" == "xgboost" else progress._open_bar(sys.stderr, 0, "")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    wanted = ".".join(map(str, FLOORS[name]))
    assert last.startswith(f"ImportError: loopwright needs {name} {wanted} or newer, and ")
    assert last.endswith(f"is installed here: pip install --upgrade '{name}>={wanted}'")


def test_every_package_is_listed() -> None:
    found = {
        sources.module_name(path) for path in sources.library_files() if path.name == "__init__.py"
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {(sources.ROOT / path).parent for path in sources.library_files()}
    assert not [str(f) for f in folders if not (f / "__init__.py").exists()]


def test_the_version_is_one() -> None:
    import loopwright

    assert loopwright.__version__ == PROJECT["project"]["version"]


def test_a_wheel_has_what_users_need_and_no_more(tmp_path: Path) -> None:
    """It is built from a copy without what other builds left behind."""
    copy = tmp_path / "copy"
    shutil.copytree(
        sources.ROOT,
        copy,
        ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests", "bench"),
    )
    wheels = tmp_path / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels), "."]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (wheel,) = wheels.iterdir()
    assert wheel.name.endswith("-py3-none-manylinux2014_x86_64.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "loopwright/py.typed" in names and "loopwright/tuning_logs/model.json" in names
    assert "loopwright/codegen/runtime/call.ll" in names
    assert not [name for name in names if "samples/" in name]
    assert wheel.stat().st_size < 2.6e6


def test_the_distribution_of_xgboost_without_gpu_code_is_enough() -> None:
    """The tests run with it: ``make`` installs what this prints."""
    script = sources.ROOT / ".ci" / "dependencies.py"
    done = subprocess.run(
        [sys.executable, str(script), "with", "dev"], capture_output=True, text=True, check=True
    )
    names = {re.match(r"[\w-]+", line).group() for line in done.stdout.splitlines()}
    assert {"numpy", "llvmlite", "tqdm", "xgboost-cpu", "onnx", "pytest"} <= names
    assert "xgboost" not in names and "loopwright" not in names


def test_without_xgboost_everything_but_its_model_works(tmp_path: Path) -> None:
    """Compiling, tuning with the linear model, and reuse of the log."""
    code = """
import sys
sys.modules["xgboost"] = None
import numpy as np
import loopwright as lw
f = lw.compile(lambda x: np.exp(x).sum(axis=0), log="log.jsonl")
x = np.ones((64, 64), np.float32)
f(x)
f.tune(x, trials=2)
np.testing.assert_allclose(lw.compile(f.function, log="log.jsonl")(x), f(x))
from loopwright.commands.doctor import _missing, _NEEDED, _OPTIONAL, _versions
assert not [*_missing(_versions((*_NEEDED, *_OPTIONAL)))]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log.jsonl").stat().st_size > 500
