"""The disk cache: entries are whole or missing, few enough, and the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from loopwright.codegen.llvm import store as module
from loopwright.codegen.llvm.store import Store, cache_folder, store
from loopwright.ir import files as files_of_ours
from loopwright.ir.errors import RefusedFileWarning


@pytest.fixture
def kept(tmp_path):
    return Store(tmp_path / "code", 1 << 20)


def files(kept):
    return sorted(kept._folder.iterdir())


def test_what_is_put_is_there_for_every_process(kept):
    key = kept.key("kernel", "matmul", 4)
    assert kept.get(key) is None
    kept.put(key, "kernel matmul", b"code")
    assert Store(kept._folder, 1).get(key) == b"code"
    assert [(e.label, e.size) for e in kept.entries()] == [
        ("kernel matmul", files(kept)[0].stat().st_size)
    ]
    assert kept.key("kernel", "matmul", 4) == key != kept.key("kernel", "matmul4")
    assert kept.key("kernel", "ab", "c") != kept.key("kernel", "a", "bc")


def test_another_version_of_the_compiler_has_other_keys(kept, monkeypatch):
    key = kept.key("kernel", "matmul")
    monkeypatch.setattr(module, "code_version", lambda: "another")
    assert kept.key("kernel", "matmul") != key


def test_an_entry_with_a_flipped_bit_is_missing_and_goes(kept):
    key = kept.key("kernel", "matmul")
    kept.put(key, "kernel matmul", bytes(range(64)))
    whole = (kept._folder / key).read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        (kept._folder / key).write_bytes(damaged)
        assert kept.get(key) is None
        assert not (kept._folder / key).exists()
    for length in (0, 7, 8, 40, 41, 42, len(whole) - 1):
        (kept._folder / key).write_bytes(whole[:length])
        assert kept.get(key) is None
    (kept._folder / key).write_bytes(whole)
    assert kept.get(key) == bytes(range(64))


WRITER = """
import itertools, pathlib, sys
from loopwright.codegen.llvm.store import Store
kept = Store(pathlib.Path(sys.argv[1]), 1 << 30)
for n in itertools.count():
    kept.put(f"{n % 5:064x}", "writer", bytes([n % 256]) * 300_000)
    print(n, flush=True)
"""


def test_entries_stay_whole_where_two_processes_write_and_one_is_killed(kept):
    with subprocess.Popen([sys.executable, "-c", WRITER, kept._folder], stdout=-1) as writer:
        assert writer.stdout is not None
        for n in range(40):
            writer.stdout.readline()
            kept.put(f"{n % 5:064x}", "mine", b"mine" * 100_000)
        writer.kill()
    contents = [kept.get(f"{n:064x}") for n in range(5)]
    assert all(content and len({*content}) in (1, 4) for content in contents)
    assert {len(content or b"") for content in contents} <= {300_000, 400_000}
    assert {entry.label for entry in kept.entries()} <= {"mine", "writer"}


def test_an_entry_under_the_name_of_another_is_missing(kept):
    one, other = kept.key("kernel", 1), kept.key("kernel", 2)
    kept.put(one, "kernel", b"code")
    (kept._folder / one).rename(kept._folder / other)
    assert kept.get(other) is None


def test_entries_that_were_not_used_for_the_longest_time_go(tmp_path):
    kept = Store(tmp_path / "code", 10_000)
    keys = [kept.key("kernel", n) for n in range(8)]
    for n, key in enumerate(keys):
        kept.put(key, "kernel", bytes(2000))
        os.utime(kept._folder / key, (0, time.time() - 10_000 + n))
    assert kept.get(keys[0]) is not None  # notes its use
    kept.sweep()
    assert [n for n, key in enumerate(keys) if kept.get(key) is not None] == [0, 6, 7]
    assert kept.sweep(0) == 3 and not files(kept)


def test_what_a_process_left_unfinished_goes_after_an_hour(kept):
    kept.put(kept.key("kernel", 1), "kernel", b"code")
    old, new = kept._folder / "a.1.2.part", kept._folder / "b.1.2.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 4000))
    kept.sweep()
    assert not old.exists() and new.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_is_neither_read_nor_written(kept, mode):
    key = kept.key("kernel", 1)
    kept.put(key, "kernel", b"code")
    kept._folder.chmod(mode)
    fresh = Store(kept._folder, 1 << 20)
    with pytest.warns(RefusedFileWarning, match="code: others may write it"):
        assert fresh.get(key) is None
    fresh.put(fresh.key("kernel", 2), "kernel", b"code")
    assert len(files(kept)) == 1


def test_links_and_pipes_in_the_place_of_entries_are_missing(kept, tmp_path):
    key, other = kept.key("kernel", 1), kept.key("kernel", 2)
    kept.put(key, "kernel", b"code")
    (kept._folder / key).rename(tmp_path / "elsewhere")
    (kept._folder / key).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(kept._folder / other)
    for each, kind in (key, "a link"), (other, "a FIFO"):
        with pytest.warns(RefusedFileWarning, match=kind):
            assert kept.get(each) is None
        assert kept.get(each) is None  # and says it once


def test_a_full_disk_costs_no_more_than_the_cache(kept, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_of_ours.os, "open", full)
    kept.put(kept.key("kernel", 1), "kernel", b"code")
    monkeypatch.undo()
    assert files(kept) == []


@pytest.mark.parametrize("word", ["0", "off", "/dev/null/x"])
def test_without_a_folder_nothing_is_kept(monkeypatch, word):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", word)
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "1")
    kept = store()
    kept.put(kept.key("kernel", 1), "kernel", b"code")
    assert kept.get(kept.key("kernel", 1)) is None and kept.entries() == []
    assert not cache_folder().exists()


def test_a_size_of_nothing_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "0")
    store().put(store().key("kernel", 1), "kernel", b"code")
    assert not any(tmp_path.iterdir())


PROGRAM = """
import sys
import numpy as np
import loopwright as lw
from loopwright.codegen import objects
from loopwright.codegen.llvm import store

texts = []
for module in (objects, store):
    compile_object = module.compile_object
    def count(text, *rest, compile_object=compile_object):
        texts.append(text)
        return compile_object(text, *rest)
    module.compile_object = count
w = np.linspace(-1, 1, 16 * 8, dtype=np.float32).reshape(16, 8)
f = lw.compile(lambda x: np.exp(np.maximum(x @ w, 0)).sum(axis=0), threads=2)
x = np.linspace(-1, 1, 24 * 16, dtype=np.float32).reshape(24, 16)
low = f.lower(x)
f(x)
count = len(texts)
print(count, f(x).tobytes().hex(), low.built.code_hash, low.as_text("llvm"), low.built.summary)
"""


def run(folder, program=PROGRAM):
    env = {**os.environ, "LOOPWRIGHT_CACHE": str(folder), "LOOPWRIGHT_CACHE_SIZE": "16"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    count, _, rest = done.stdout.partition(" ")
    return int(count), rest


def test_a_second_process_compiles_nothing_and_runs_the_same_code(tmp_path):
    first, result = run(tmp_path)
    assert first >= 4  # two kernels at least, the program and the runtime
    assert run(tmp_path) == (0, result)
    for path in (tmp_path / "code").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert run(tmp_path) == (first, result)


RECORD = """
from loopwright.autotune.record import MeasureRecord, target_key
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
workloads = map(workload_of, low.built.parts.prims.values())
key = target_key(Target.host(), 2)
TuningLog("LOG").append(MeasureRecord(w, key, (), "plain", (1e-9,), None) for w in workloads)
"""


def test_a_log_that_says_otherwise_is_seen_beside_the_cache(tmp_path):
    log = str(tmp_path / "log.jsonl")
    use = PROGRAM.replace("threads=2", f"threads=2, log={log!r}")
    run(tmp_path)
    assert "by the rules" in run(tmp_path, use)[1]
    run(tmp_path, PROGRAM + RECORD.replace("LOG", log))
    assert "2 tuned" in run(tmp_path, use)[1]
    assert "by the rules" in run(tmp_path)[1]


def test_one_process_an_hour_looks_at_all_files(tmp_path, monkeypatch):
    swept = []
    monkeypatch.setattr(Store, "sweep", lambda self: swept.append(self._folder))

    def process():
        kept = Store(tmp_path / "code", 1 << 20)
        for number in range(module.PUTS_BETWEEN_SWEEPS + 1):
            kept.put(kept.key("text", number), "", b"code")
            if number == 0:
                first = len(swept)
        return first

    assert (process(), len(swept)) == (1, 2)  # the second one after many entries
    assert (process(), len(swept)) == (2, 3)
    os.utime(tmp_path / "code.swept", (1.0, 1.0))
    assert process() == 4
