"""Libraries loaded without the packages they can do without (autotune/model/cost_model.py)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from loopwright.autotune.model.cost_model import load_apart

PACKAGE = {
    "heavy.py": "value = 1",
    "library/__init__.py": """
        try:
            import heavy
        except ImportError:
            heavy = None
        from .part import where
    """,
    "library/part.py": "where = __name__",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    for name in list(sys.modules):
        if name.partition(".")[0] in ("heavy", "library", "_loopwright_library"):
            monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_a_library_is_loaded_without_a_package(folder: Path) -> None:
    library = load_apart("library", without=("heavy",))
    assert library.heavy is None and library.where == "_loopwright_library.part"
    assert "heavy" not in sys.modules and "library" not in sys.modules


def test_the_users_import_gets_the_whole_library(folder: Path) -> None:
    finders = list(sys.meta_path)
    load_apart("library", without=("heavy",))
    assert sys.meta_path == finders
    import library  # type: ignore[import-not-found]

    assert library.heavy.value == 1 and library.where == "library.part"


def test_a_library_that_fails_leaves_nothing_behind(folder: Path) -> None:
    (folder / "library" / "part.py").write_text("raise OSError('no such library')")
    finders = list(sys.meta_path)
    with pytest.raises(OSError, match="no such library"):
        load_apart("library", without=("heavy",))
    assert sys.meta_path == finders
    assert not any(name.startswith("_loopwright_library") for name in sys.modules)


def test_a_library_that_is_not_installed(folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_library'"):
        load_apart("no_such_library", without=())


def test_the_cost_model_learns_without_scikit_learn() -> None:
    pytest.importorskip("sklearn")
    program = """
        import sys
        import numpy as np
        from loopwright.autotune.model.cost_model import XGBoostModel
        model = XGBoostModel()
        rows = np.random.default_rng(0).random((64, 5), np.float32)
        model.update("task", rows, 1e-3 * (1 + rows[:, 0]))
        told = model.predict(rows)
        assert np.corrcoef(told, -rows[:, 0])[0, 1] > 0.8, told
        print(sorted({"sklearn", "xgboost"} & set(sys.modules)))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert ran.stdout == "[]\n", ran.stderr
