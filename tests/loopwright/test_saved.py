"""Saved functions: the same results, in a process without the compiler; damage is an error."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections import namedtuple
from hashlib import sha256
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main
from loopwright.codegen.digest import Digest
from loopwright.codegen.saved_program import START
from loopwright.codegen.target import Target

RNG = np.random.default_rng(7)
W = RNG.standard_normal((96, 80), dtype=np.float32)
B = RNG.standard_normal(80, dtype=np.float32)
X = RNG.standard_normal((33, 96), dtype=np.float32)


@lw.compile
def layer(x, scale="one"):
    h = np.maximum(x @ W + B, 0)
    return {"h": h, "sums": (h.sum(axis=1), [h.max(), 7, None])}


@pytest.fixture
def file(tmp_path):
    layer.lower(X).save(tmp_path / "layer.lw")
    return tmp_path / "layer.lw"


def check(result, wanted):
    assert list(result) == list(wanted)
    np.testing.assert_array_equal(result["h"], wanted["h"])
    np.testing.assert_array_equal(result["sums"][0], wanted["sums"][0])
    assert result["sums"][1][1:] == [7, None] and isinstance(result["sums"][1], list)


def test_a_loaded_function_gives_what_the_compiled_one_did(file):
    loaded = lw.load(file)
    for _ in range(3):
        check(loaded(X), layer(X))
    check(loaded(x=X), layer(X))
    check(loaded(X[::-1][::-1]), layer(X))
    assert loaded.inputs == ("x",) and loaded.specs[0].shape == (33, 96)
    assert loaded.run({"x": X})["0"].shape == (33, 80)
    assert "call @" in loaded.as_text() and "layer" in repr(loaded)
    check(lw.load(file, threads=1)(X), layer(X))


def test_weights_stay_in_the_file(file):
    constants = lw.load(file).executable.constants
    assert any(c.size >= W.size for c in constants)
    for constant in constants:
        assert not constant.flags.owndata and not constant.flags.writeable
        assert constant.ctypes.data % 64 == 0


def test_other_arguments_are_an_error(file):
    loaded = lw.load(file)
    with pytest.raises(lw.LoopwrightTypeError, match="compiled for"):
        loaded(X[:3])
    with pytest.raises(lw.LoopwrightTypeError, match=r"float32\[33, 95\]"):
        loaded.run({"x": X[:, :95]})
    with pytest.raises(lw.LoopwrightTypeError, match="takes x, not y"):
        loaded.run({"y": X})


def test_arguments_of_every_kind_that_a_file_keeps(tmp_path):
    def f(a, *more, k, mode, **rest):
        return a["x"] * k + more[0] - rest["z"] if mode == "plus" else a["x"]

    compiled = lw.compile(f, static_argnames=("mode",))
    x = np.arange(4, dtype=np.float32)
    args, kwargs = ({"x": x}, x + 1), {"k": x + 2, "mode": "plus", "z": x + 3}
    compiled.lower(*args, **kwargs).save(tmp_path / "f.lw")
    loaded = lw.load(tmp_path / "f.lw")
    np.testing.assert_array_equal(loaded(*args, **kwargs), compiled(*args, **kwargs))
    with pytest.raises(lw.LoopwrightTypeError):
        loaded(*args, **{**kwargs, "mode": "minus"})


def test_modules_keep_the_names_of_their_arrays(tmp_path):
    module = lw.build(
        "def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { add(%x, %y) }"
    )
    module.lower().save(tmp_path / "add.lw")
    loaded = lw.load(tmp_path / "add.lw")
    feeds = {"y": np.float32([1, 2]), "x": np.float32([3, 4])}
    np.testing.assert_array_equal(loaded.run(feeds)["0"], [4, 6])


Pair = namedtuple("Pair", "a b")


def test_what_cannot_be_saved_is_an_error_that_says_so(tmp_path):
    def grow(x):
        x += 1

    with pytest.raises(lw.UnsupportedError, match="changes its arguments"):
        lw.compile(grow).lower(X).save(tmp_path / "grow.lw")
    with pytest.raises(lw.UnsupportedError, match="Pair"):
        lw.compile(lambda x: Pair(x + 1, x)).lower(X).save(tmp_path / "pair.lw")
    assert not any(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        layer.lower(X).save(tmp_path / "none" / "layer.lw")


LOADED = """
import sys
import numpy as np
import loopwright as lw
loaded = lw.load(sys.argv[1])
x = np.load(sys.argv[2])
np.save(sys.argv[3], loaded(x)["h"])
rooms = ("search", "space", "measure", "model", "select", "program")
parts = [f"autotune.{room}" for room in rooms]
parts += ["ir.graph.passes", "pipeline", "codegen.emit", "codegen.kernel", "ir.schedule"]
names = [name for part in parts for name in sys.modules if f"loopwright.{part}" in name]
print(*names, *(name for name in ("xgboost", "tqdm") if name in sys.modules))
"""


def test_loading_needs_neither_passes_nor_search(file, tmp_path):
    np.save(tmp_path / "x.npy", X)
    paths = [str(p) for p in (file, tmp_path / "x.npy", tmp_path / "h.npy")]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), layer(X)["h"])


def test_a_processor_that_lacks_what_the_code_uses_is_refused(tmp_path, monkeypatch):
    host = Target.host()
    if host.isa == "x86-64":
        pytest.skip("there is nothing to be masked")
    layer.lower(X).save(tmp_path / "here.lw")
    lw.compile(layer.function, target=Target("x86-64")).lower(X).save(tmp_path / "any.lw")
    monkeypatch.setattr(Target, "host", staticmethod(lambda: host.with_isa("x86-64")))
    with pytest.raises(lw.LoopwrightValueError, match=r"avx2.*x86-64.*lacks"):
        lw.load(tmp_path / "here.lw")
    h = lw.load(tmp_path / "any.lw")(X)["h"]
    np.testing.assert_allclose(h, np.maximum(X @ W + B, 0), rtol=1e-4, atol=1e-5)


def test_a_flipped_bit_anywhere_is_an_error(file):
    whole = file.read_bytes()
    places = {0, 6, 7, 8, 15, 16, 47, 48, len(whole) - 1}
    places |= set(np.random.default_rng(1).integers(0, len(whole), 150).tolist())
    for place in sorted(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(lw.LoopwrightValueError, match=r"layer\.lw is"):
            lw.load(file)


def test_a_file_that_is_cut_or_longer_is_an_error(file):
    whole = file.read_bytes()
    for data in (b"", whole[:7], whole[:47], whole[:100], whole[:5000], whole[:-1], whole + b"x"):
        file.write_bytes(data)
        with pytest.raises(lw.LoopwrightValueError, match="is damaged"):
            lw.load(file)


def rewritten(whole, change):
    """The file with another head, and the hash of that."""
    (length,) = struct.unpack_from("<Q", whole, 8)
    head = json.loads(whole[START : START + length])
    change(head)
    data = json.dumps(head).encode()
    data += b" " * (-(START + len(data)) % 4096)
    hashed = struct.pack("<Q", len(data)) + sha256(data).digest()
    return whole[:8] + hashed + data + whole[START + length :]


HOSTILE = {
    "no field": lambda h: h.pop("arena"),
    "a huge array": lambda h: h["constants"][0].__setitem__(1, [1 << 40, 1 << 40]),
    "a huge arena": lambda h: h.update(arena=1 << 60),
    "a negative size": lambda h: h["sections"][0].__setitem__(0, -1),
    "a wrong space": lambda h: h["sections"][-1].__setitem__(1, 1 << 50),
    "an unknown dtype": lambda h: h["inputs"][0].__setitem__(0, "object"),
    "an unknown container": lambda h: h["extra"].update(result=["os.system", [], []]),
    "an unknown value": lambda h: h["extra"]["fixed"].append(["eval", "1"]),
    "no kernel of that name": lambda h: h["kernels"][0].__setitem__(1, "system"),
    "a list for a table": lambda h: h.update(extra=[1, 2]),
    "fewer constants": lambda h: h["constants"].pop(),
    "a deep structure": lambda h: h["extra"].update(result=deep()),
    "an unknown target": lambda h: h["target"].update(isa="pdp-11"),
}


def deep():
    made = "*"
    for _ in range(400):
        made = ["tuple", [], [made]]
    return made


@pytest.mark.parametrize("what", HOSTILE)
def test_a_head_with_nonsense_is_an_error(file, what):
    file.write_bytes(rewritten(file.read_bytes(), HOSTILE[what]))
    if what == "a deep structure":
        lw.load(file)  # deep, and harmless
        return
    with pytest.raises(lw.LoopwrightValueError, match=r"layer\.lw (is damaged|was made)"):
        lw.load(file)


def places(value, path=()):
    """Yields the path of everything in JSON data."""
    yield path
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*path, key))


@pytest.mark.parametrize("count, compile", [(150, False), (60, True)])
def test_odd_values_anywhere_in_a_head_are_read_or_refused(file, count, compile):
    whole = file.read_bytes()
    (length,) = struct.unpack_from("<Q", whole, 8)
    head = json.loads(whole[START : START + length])
    rng = np.random.default_rng(0)
    parts = ("source", "extra") if compile else tuple(head)  # which are read
    every = [path for path in places({name: head[name] for name in parts}) if path]
    refused = 0
    for number in rng.permutation(len(every))[:count]:
        *outer, last = every[number]
        odd = (None, -1, 1 << 70, 0.5, "x", [], {}, True)[rng.integers(8)]

        def change(head, outer=outer, last=last, odd=odd):
            for key in outer:
                head = head[key]
            head[last] = odd

        file.write_bytes(rewritten(whole, change))
        try:
            lw.load(file, compile=compile)
        except lw.LoopwrightError as error:
            refused += 1
            assert not isinstance(error, lw.InternalError), (every[number], odd)
    assert refused > count // 4


def test_a_file_that_others_may_write_is_not_run(file):
    file.chmod(0o666)
    with pytest.raises(lw.LoopwrightError, match="its content is run"):
        lw.load(file)


def without_code(whole):
    """The file with traps in the place of all machine code, and the hashes of these."""
    (length,) = struct.unpack_from("<Q", whole, 8)
    begin, sections = START + length, []

    def change(head):
        at = begin
        for number, row in enumerate(head["sections"]):
            data = whole[at : at + row[1]]
            if number <= len(head["kernels"]):
                data = b"\xcc" * row[1]
                digest = Digest()
                digest.update(data[: row[0]])
                digest.update(data[row[0] :])
                row[2] = digest.hexdigest()
            sections.append(data)
            at += row[1]

    changed = rewritten(whole, change)
    return changed[: len(changed) - len(whole[begin:])] + b"".join(sections)


def test_compiled_from_its_source_a_file_needs_no_code(file):
    file.write_bytes(without_code(file.read_bytes()))
    file.chmod(0o666)  # whoever may write it
    loaded = lw.load(file, compile=True)
    check(loaded(X), layer(X))
    check(lw.load(file, threads=1, compile=True)(x=X), layer(X))
    assert loaded.inputs == ("x",) and "call @" in loaded.as_text()
    with pytest.raises(lw.LoopwrightTypeError, match="compiled for"):
        loaded(X[:3])
    file.chmod(0o644)
    with pytest.raises(lw.LoopwrightValueError, match="is damaged"):
        lw.load(file)  # the traps are no object code


def test_symbolic_sizes_are_compiled_from_their_source(tmp_path):
    sums = lw.compile(lambda x: np.tanh(x @ W).sum(axis=1), dynamic={"x": {0: "n"}})
    sums.lower(lw.f32["n", 96]).save(tmp_path / "sums.lw")
    loaded = lw.load(tmp_path / "sums.lw", compile=True)
    for rows in (1, 33):
        np.testing.assert_allclose(loaded(X[:rows]), sums(X[:rows]), rtol=1e-6)


SCHEDULED = """
def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] { @double(%x) }
prim @double(x: float32[64]) -> y: float32[64] { y[i] = x[i] * 2.0 }
schedule @double { split('i', (16, 4)) }
"""


@pytest.mark.parametrize("steps", [None, [["split", "i", [16, 5]]], [["fuse", ["k"]]], [[7]], 7])
def test_a_schedule_of_a_source_is_used_or_refused(tmp_path, steps):
    path, x = tmp_path / "double.lw", np.arange(64, dtype=np.float32)
    lw.build(SCHEDULED).lower().save(path)

    def change(head):
        kept = head["source"]["schedules"]
        assert list(kept.values()) == [[["split", next(iter(kept.values()))[0][1], [16, 4]]]]
        if steps is not None:
            head["source"]["schedules"] = dict.fromkeys(kept, steps)

    path.write_bytes(rewritten(path.read_bytes(), change))
    try:
        np.testing.assert_array_equal(lw.load(path, compile=True)(x), x * 2)
    except lw.LoopwrightError as error:
        assert steps in ([[7]], 7), error


def test_a_file_without_a_source_is_not_compiled(file):
    whole = file.read_bytes()
    layer.lower(X).save(file, source=False)
    check(lw.load(file)(X), layer(X))
    assert len(file.read_bytes()) <= len(whole)
    with pytest.raises(lw.LoopwrightValueError, match="holds no program that could be compiled"):
        lw.load(file, compile=True)


def test_a_source_for_other_arguments_than_its_calls_is_an_error(file):
    def change(head):
        leaf = next(row for row in head["extra"]["leaves"] if row[0] == "array")
        leaf[2] = [1, 96]

    file.write_bytes(rewritten(file.read_bytes(), change))
    with pytest.raises(lw.LoopwrightValueError, match="takes or returns other arrays"):
        lw.load(file, compile=True)


NET = """
import numpy as np
W = np.ones((8, 4), np.float32)
def net(x):
    return np.maximum(x @ W, 0)
net_inputs = (np.ones((3, 8), np.float32),)
"""


def test_the_command_line_saves_runs_and_times(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    np.save("x.npy", np.ones((3, 8), np.float32))
    assert main(["save", "net.py:net", "-o", "net.lw", "--isa", "x86-64"]) == 0
    assert "net.lw" in capsys.readouterr().out
    assert main(["run", "net.lw", "--input", "x.npy", "--output", "y.npy"]) == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.full((3, 4), 8, np.float32))
    assert main(["bench", "net.lw", "--seconds", "0.05"]) == 0
    assert "per call" in capsys.readouterr().out
    assert main(["bench", "net.lw", "--arg", "x=f32[1]"]) == 2
    os.truncate("net.lw", 1000)
    assert main(["run", "net.lw", "--input", "x.npy"]) == 2
    assert "is damaged" in capsys.readouterr().err


@lw.function
def ackermann(m, n):
    return lw.cond(
        m == 0,
        lambda: n + 1,
        lambda: lw.cond(
            n == 0,
            lambda: ackermann(m - 1, n * 0 + 1),
            lambda: ackermann(m - 1, ackermann(m, n - 1)),
        ),
    )


def test_loops_and_recursion_are_saved(tmp_path):
    @lw.compile
    def loops(m, n, x):
        sums = lw.scan(lambda s, row: (s + row, s * 2), np.zeros(3), x)
        count = lw.while_loop(lambda k: k * k < n, lambda k: k + 1, m)
        return ackermann(m, n), sums, count

    m, n, x = np.int64(2), np.int64(3), np.arange(12.0).reshape(4, 3)
    loops.lower(m, n, x).save(tmp_path / "loops.lw")
    loaded = lw.load(tmp_path / "loops.lw")
    value, (total, stacked), count = loaded(m, n, x)
    assert (value, count) == (9, 2)
    np.testing.assert_array_equal(total, x.sum(0))
    np.testing.assert_array_equal(stacked, 2 * (np.cumsum(x, 0) - x))
    with pytest.raises(RecursionError, match="LOOPWRIGHT_STACK"):
        loaded(np.int64(3), np.int64(10**9), x)  # as deep at once
