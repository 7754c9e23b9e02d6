"""Bundles: objects that C programs link, loaded here and, where there is a compiler, by C."""

from __future__ import annotations

import base64
import ctypes
import importlib
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main
from loopwright.codegen.bundle.objects import undefined_symbols
from loopwright.codegen.bundle.wrapper import STATUSES
from loopwright.codegen.llvm.link import LoadedObject, load_object
from loopwright.codegen.target import Target

RNG = np.random.default_rng(0)
W = RNG.standard_normal((24, 10)).astype(np.float32)
LEVEL = Target.host().isa


def scores(x: Any) -> Any:
    return np.exp(-np.abs(x @ W)) @ W[:10]


def ordered(x: Any, steps: Any) -> Any:
    for _ in range(steps):
        x = x * 0.5 + 1
    return x, np.argsort(x)


def picked(x: Any, i: Any) -> Any:
    return x[i]


def aligned(size: int) -> np.ndarray[Any, Any]:
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size]


class Loaded:
    """The C function of a bundle without symbolic sizes, or with one."""

    def __init__(self, folder: Path, name: str, arena: int = 1 << 16) -> None:
        self.object: LoadedObject = load_object((folder / f"{name}.o").read_bytes())
        content = (folder / f"{name}.weights.bin").read_bytes()
        self.weights, self.arena = aligned(len(content)), aligned(arena)
        self.weights[:] = np.frombuffer(content, np.uint8)
        self.address = self.object.address(name)

    def __call__(self, *given: Any, weights: Any = None, arena: Any = None) -> int:
        """Returns the status for arrays, addresses and sizes; None is a null address."""
        memory = (
            self.weights if weights is None else weights,
            self.arena if arena is None else arena,
        )
        values = [g.ctypes.data if isinstance(g, np.ndarray) else g for g in (*given, *memory)]
        kinds = [ctypes.c_void_p if v is None or v > 1 << 20 else ctypes.c_int64 for v in values]
        return int(ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self.address)(*values))


def compiled(function: Any, level: str = LEVEL) -> Any:
    return lw.compile(function, target=Target(level), threads=1)


def test_the_object_gives_the_bits_of_the_function(tmp_path: Path) -> None:
    x, unordered = RNG.standard_normal((7, 24)), RNG.standard_normal(50)
    x, unordered = x.astype(np.float32), unordered.astype(np.float32)
    expected = compiled(scores)(x), *compiled(ordered)(unordered, np.int64(3))
    lw.compile(scores).lower(lw.f32["n", 24]).bundle(tmp_path, targets=[LEVEL])
    lw.compile(ordered).lower(lw.f32[50], lw.i64[()]).bundle(tmp_path / "o", targets=[LEVEL])
    result, sorts = aligned(7 * 40), (aligned(200), aligned(400))
    assert Loaded(tmp_path, "scores")(x, result, 7) == 0
    assert Loaded(tmp_path / "o", "ordered")(unordered, np.array(3), *sorts) == 0
    results = result.view(np.float32), sorts[0].view(np.float32), sorts[1].view(np.int64)
    for given, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(given, wanted.ravel())


def test_what_is_wrong_is_a_status(tmp_path: Path) -> None:
    lw.compile(scores).lower(lw.f32["n", 24]).bundle(tmp_path, targets=[LEVEL])
    lw.compile(picked).lower(lw.f32[10], lw.i64[()]).bundle(tmp_path, targets=[LEVEL])
    run, x, y = Loaded(tmp_path, "scores"), np.ones((7, 24), np.float32), aligned(7 * 40)
    header = (tmp_path / "scores.h").read_text()
    words = [word for word, _ in STATUSES]
    assert all(f"SCORES_{word} = {n}," in header for n, word in enumerate(words))
    assert run(x, y, 7) == 0
    assert [run(None, y, 7), run(x, None, 7)] == [1, 1]
    assert [run(x.ctypes.data + 2, y, 7), run(x, y[4:], 7)] == [2, 2]
    assert [run(x, y, 7, arena=y), run(y, y, 7), run(x, run.weights, 7)] == [3, 3, 3]
    assert [run(x, y, n) for n in (-1, 1 << 40, -(1 << 63))] == [4, 4, 4]
    assert run(x, y, 7, weights=run.arena) == 3
    assert run(x, y, 7, weights=aligned(len(run.weights))) == 6
    at, number = np.array(3), aligned(4)
    assert Loaded(tmp_path, "picked")(np.ones(10, np.float32), at, number) == 0
    assert Loaded(tmp_path, "picked")(np.ones(10, np.float32), np.array(12), number) == 9


def test_a_fat_object_has_every_level(tmp_path: Path) -> None:
    lw.compile(scores).lower(lw.f32[7, 24]).bundle(tmp_path, fat=True, static_memory=True)
    run, x, y = Loaded(tmp_path, "scores"), RNG.standard_normal((7, 24)), aligned(7 * 40)
    x = x.astype(np.float32)
    use = run.object.function("scores_use_level", ctypes.c_int, restype=ctypes.c_int)
    for number, level in enumerate(("x86-64", "x86-64-v3", "x86-64-v4"), 1):
        runs = not Target(level).missing_here
        assert use(number) == (0 if runs else 5)
        if runs:
            assert run(x, y) == 0
            expected = compiled(scores, level)(x)
            np.testing.assert_array_equal(y.view(np.float32), expected.ravel())
    assert use(9) == 4


def test_the_same_function_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        lw.compile(scores).lower(lw.f32[7, 24]).bundle(
            folder, targets=["x86-64-v3", "aarch64"], linked_weights=True, threads="callback"
        )
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 16
    for file in files:
        content = (tmp_path / "a" / file).read_bytes()
        assert content == (tmp_path / "b" / file).read_bytes(), file
        assert str(tmp_path).encode() not in content
    code = (tmp_path / "a" / "aarch64" / "scores.o").read_bytes()
    assert undefined_symbols(code) == ["scores_weights"]


def test_two_functions_in_one_program(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    (tmp_path / "net.py").write_text(
        "import loopwright as lw\nimport numpy as np\n"
        "def rise(x: lw.f32['n', 24]): return np.tanh(x)\n"
        "def fall(x: lw.f32['n', 24]): return x[:, ::-1] * 2\n"
    )
    pool = ("--threads", "pool", "--target", "x86-64")
    for name in ("rise", "fall"):
        assert main(["bundle", f"{tmp_path}/net.py:{name}", "-o", str(tmp_path), *pool]) == 0
    lw.compile(lambda x: np.tanh(x)).lower(lw.f32["n", 24]).save(tmp_path / "kept.lw")
    name = ("--name", "exp", "--target", LEVEL)
    assert main(["bundle", f"{tmp_path}/kept.lw", "-o", str(tmp_path), *name]) == 0
    x, y = np.ones((3, 24), np.float32), aligned(3 * 96)
    assert Loaded(tmp_path, "exp_")(x, y, 3) == 0  # C has an exp
    np.testing.assert_array_equal(y.view(np.float32), lw.compile(np.tanh)(x).ravel())
    if compiler is None:  # what C sees is tested where there is a compiler
        return
    second = tmp_path / "fall_main.c"
    text = (tmp_path / "fall_example.c").read_text().replace("int main(", "int fall_main(")
    second.write_text(text)
    first = tmp_path / "rise_both.c"
    text = (tmp_path / "rise_example.c").read_text()
    text = text.replace("return wrong != 0;", "return wrong != 0 || fall_main(count, words);")
    first.write_text("int fall_main(int count, char **words);\n" + text)
    program = tmp_path / "both"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program]
    objects = [tmp_path / "rise.o", tmp_path / "fall.o"]
    subprocess.run([compiler, *flags, first, second, *objects], check=True)
    ran = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("numbers, at most 0 from those stored") == 2


def test_a_wasm_module_is_linked_without_a_linker(tmp_path: Path) -> None:
    def several(x: Any, i: Any) -> Any:
        return np.tanh(x @ W), np.sort(x)[:, i], x % np.float32(0.7)

    example = RNG.standard_normal((7, 24)).astype(np.float32), np.array(3)
    lowered = lw.compile(several).lower(lw.f32["n", 24], lw.i64[()])
    lowered.bundle(tmp_path, targets=["wasm32"], example=example, html="inline")
    assert undefined_symbols((tmp_path / "several.o").read_bytes()) == []
    module, page = (tmp_path / "several.wasm").read_bytes(), (tmp_path / "several.html").read_text()
    assert module.startswith(b"\0asm\1\0\0\0")
    for data in module, (tmp_path / "several.weights.bin").read_bytes():
        assert f'"{base64.b64encode(data).decode()}"' in page
    assert not re.search(r"@[A-Z]+@|^export |import\.meta", page, re.M)
    if shutil.which("node") is None:
        return
    command = ["node", tmp_path / "several_example.mjs"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("numbers, at most 0 from those stored") == 2
    wrong = tmp_path / "several.example.bin"
    wrong.write_bytes(wrong.read_bytes()[:-64] + bytes(64))
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 1


@pytest.mark.skipif(shutil.which("cc") is None, reason="a wheel needs a linker")
def test_a_wheel_needs_numpy_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: Any = {"name": "squares", "wheel": "2.1", "targets": [LEVEL]}
    lw.compile(lambda x: x * x).lower(lw.f32["n", 4]).bundle(tmp_path, **options)
    with zipfile.ZipFile(tmp_path / "squares-2.1-py3-none-linux_x86_64.whl") as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    squares = importlib.import_module("squares").squares
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(squares(x), x * x)
    with pytest.raises(TypeError, match=r"squares: x is of shape \(4, 3\), not \(4, 4\)"):
        squares(x.T)


def test_what_a_bundle_cannot_take_along_is_refused(tmp_path: Path) -> None:
    solved = lw.compile(np.linalg.solve).lower(lw.f32[4, 4], lw.f32[4])
    with pytest.raises(lw.LoopwrightError, match=r"numpy.linalg.solve runs in a Python library"):
        solved.bundle(tmp_path)
    with pytest.raises(lw.LoopwrightError, match=r"unknown target 'z80'"):
        lw.compile(scores).lower(lw.f32[7, 24]).bundle(tmp_path, targets=["z80"])
    with pytest.raises(lw.LoopwrightError, match=r"html='inline' is for wasm32 only"):
        lw.compile(scores).lower(lw.f32[7, 24]).bundle(tmp_path, html="inline")
    with pytest.raises(lw.LoopwrightError, match=r"in one thread, which hands over its weights"):
        options: Any = {"targets": ["wasm32"], "threads": "pool"}
        lw.compile(scores).lower(lw.f32[7, 24]).bundle(tmp_path, **options)
    with pytest.raises(lw.LoopwrightError, match=r"bundle\(\) has no option 'thread'"):
        lw.compile(scores).lower(lw.f32[7, 24]).bundle(tmp_path, thread="pool")
