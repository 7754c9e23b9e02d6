"""Models whose code a process before has kept: they are mapped, not imported."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import onnx
import pytest
from loopwright.cli import main
from loopwright.codegen.llvm.store import store
from loopwright.doors import kept_models, onnx_model
from loopwright.ir.errors import RefusedFileWarning
from onnx import helper
from onnx_models import model, value

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every program is kept, in a folder of the test."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "8")
    monkeypatch.setattr(kept_models, "WORTHWHILE_SECONDS", 0.0)
    monkeypatch.setattr(kept_models, "CLOCK_SECONDS", 0.0)


def product(path: Path, w: Any = W, rows: int | str = 2, **options: Any) -> Path:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    made = model([node], [value("x", (rows, 3))], ["y"], {"w": np.asarray(w, np.float32)})
    onnx.save(made, path, **options)
    return path


def compiled(source: Any, *arrays: Any, **options: Any) -> Any:
    """A model that was called once, and whose program was written if it is to be kept."""
    f = lw.from_onnx(source, **options)
    f(*(arrays or (X,)))
    for thread in threading.enumerate():
        if thread.name == "loopwright-keep":
            thread.join()
    return f


def is_kept(f: Any) -> bool:
    """True if the code of a model is that of a process before."""
    return f.cache_info().reasons == (kept_models.REASON,)


def programs() -> list[Path]:
    return sorted((Path(os.environ["LOOPWRIGHT_CACHE"]) / "programs").glob("[!.]*"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model that was compiled before."""
    path = product(tmp_path / "net.onnx")
    assert not is_kept(compiled(path)) and len(programs()) == 1
    return path


def test_the_code_of_a_process_before_is_called_and_nothing_imported(path, monkeypatch):
    def fail() -> Any:
        raise AssertionError("the importer was asked for")

    monkeypatch.setattr(onnx_model, "_importer", fail)
    f = lw.from_onnx(path)
    assert is_kept(f)
    np.testing.assert_array_equal(f(X), X @ W)
    np.testing.assert_array_equal(f(X), X @ W)
    np.testing.assert_array_equal(f.run({"x": X})["y"], X @ W)
    assert f.inputs == ("x",) and f.outputs == ("y",) and str(f.specs[0]) == "float32[2, 3]"
    with pytest.raises(lw.LoopwrightTypeError, match=r"float32\[2, 3\]"):
        f(X[:1])


def test_what_more_than_calls_needs_is_imported_when_it_is_asked_for(path, tmp_path):
    f = lw.from_onnx(path)
    assert "matmul" in f.as_text("graph") and is_kept(f)
    assert f.memory().weights and f.profile(seconds=0.01).calls
    np.testing.assert_array_equal(f(X), X @ W)
    g = lw.from_onnx(path)
    np.testing.assert_array_equal(g(X, threads=2), X @ W)
    g.tune(X, trials=2, log=tmp_path / "net.jsonl")
    np.testing.assert_array_equal(g(X), X @ W)
    assert not is_kept(g)
    f.lower().save(tmp_path / "net.lw")
    np.testing.assert_array_equal(lw.load(tmp_path / "net.lw")(X), X @ W)


def test_another_content_of_the_file_is_another_program(path):
    product(path, W + 1)
    f = compiled(path)
    assert not is_kept(f)
    np.testing.assert_array_equal(f(X), X @ (W + 1))
    assert is_kept(compiled(path))


def test_a_change_that_keeps_size_and_date_is_seen(path):
    os.utime(path, ns=(1, 1))
    assert is_kept(compiled(path))
    product(path, W + 1)
    os.utime(path, ns=(1, 1))
    np.testing.assert_array_equal(compiled(path)(X), X @ (W + 1))


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_models, "CLOCK_SECONDS", 60.0)
    path = product(tmp_path / "net.onnx")
    compiled(path)
    assert not programs() and not is_kept(compiled(path))


def test_a_file_that_has_changed_is_not_imported_beside_other_code(path):
    f = lw.from_onnx(path)
    product(path, W + 1)
    np.testing.assert_array_equal(f(X), X @ W)
    with pytest.raises(lw.LoopwrightValueError, match="have changed since"):
        f.as_text("graph")
    np.testing.assert_array_equal(f(X), X @ W)


def test_files_beside_the_model_count(tmp_path):
    beside = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    path = product(tmp_path / "net.onnx", **beside)
    compiled(path)
    assert is_kept(compiled(path))
    (tmp_path / "w.bin").write_bytes((W + 1).tobytes())
    f = compiled(path)
    assert not is_kept(f)
    np.testing.assert_array_equal(f(X), X @ (W + 1))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(lw.LoopwrightValueError, match=r"w\.bin.*tensor 'w'"):
        lw.from_onnx(path)


def test_bytes_and_another_place_are_the_same_model(path, tmp_path):
    assert is_kept(lw.from_onnx(path.read_bytes()))
    other = tmp_path / "other.onnx"
    other.write_bytes(path.read_bytes())
    assert is_kept(lw.from_onnx(other))


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 2},
        {"precision": "strict"},
        {"target": "x86-64"},
        {"shapes": {"x": (2, 3)}},
        {"measure": "never"},
    ],
    ids=str,
)
def test_other_options_are_another_program(path, options):
    f = compiled(path, **options)
    assert not is_kept(f)
    np.testing.assert_array_equal(f(X), X @ W)
    assert is_kept(lw.from_onnx(path, **options)) and is_kept(lw.from_onnx(path))


def test_what_a_log_says_is_part_of_the_program(path, tmp_path):
    log = tmp_path / "net.jsonl"
    compiled(path, log=log).tune(X, trials=2)
    assert not is_kept(compiled(path, log=log))
    assert is_kept(compiled(path, log=log))


def test_settings_are_part_of_the_program(path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "0")
    assert not is_kept(lw.from_onnx(path))
    monkeypatch.delenv("LOOPWRIGHT_CHECK_INDEX")
    monkeypatch.setenv("LOOPWRIGHT_DEBUG", "1")
    assert not is_kept(lw.from_onnx(path))


def test_symbolic_sizes_are_kept(tmp_path):
    path = product(tmp_path / "net.onnx", rows="n")
    shapes = {"x": ("n", 3)}
    compiled(path, shapes=shapes)
    f = lw.from_onnx(path, shapes=shapes)
    assert is_kept(f)
    for rows in (1, 5, 2):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(f(x), x @ W)
    assert is_kept(f)


def test_a_damaged_program_is_compiled_anew(path):
    (file,) = programs()
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    f = compiled(path)
    assert not is_kept(f)
    np.testing.assert_array_equal(f(X), X @ W)
    assert is_kept(compiled(path))


def test_a_program_that_others_may_write_is_not_run(path):
    (file,) = programs()
    file.chmod(0o666)
    with pytest.warns(RefusedFileWarning, match="others may write"):
        assert not is_kept(lw.from_onnx(path))


def test_nothing_is_kept_where_the_user_wants_no_cache(tmp_path, monkeypatch):
    path = product(tmp_path / "net.onnx")
    for name, off in (("LOOPWRIGHT_CACHE_SIZE", "0"), ("LOOPWRIGHT_CACHE", "off")):
        monkeypatch.setenv(name, off)
        compiled(path)
        assert not is_kept(compiled(path))
    assert not (tmp_path / "cache" / "programs").exists()


def test_programs_that_take_too_much_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "0.00001")
    path = product(tmp_path / "net.onnx", np.ones((3, 400)))
    assert not is_kept(compiled(path)) and not is_kept(compiled(path)) and not programs()


def test_programs_are_listed_and_cleared(path, capsys):
    assert main(["cache", "list"]) == 0
    assert "1 programs" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert not programs() and store("programs").total() == (0, 0)
