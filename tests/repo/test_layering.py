"""Who may import whom: the list of rooms (rooms.txt), held against every import in the sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import repo_sources as sources

# Libraries that only some files may load. Everything else may use the standard library and NumPy.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "llvmlite": ("codegen.llvm", "loopwright.requirements"),
    "xgboost": ("autotune.model",),
    "tqdm": ("autotune.progress", "loopwright.inspect.notebook"),
    "dask": ("autotune.measure.elsewhere",),
    "distributed": ("autotune.measure.elsewhere",),
    "google": ("tracer.frontends.onnx",),  # protobuf, which comes with onnx
    "onnx": ("tracer.frontends.onnx",),
    "scipy": ("ir.library.special",),  # a saved program that calls it
    "torch": ("tracer.frontends.torch",),
    "ml_dtypes": ("ir.dtype",),  # of bfloat16, which NumPy does not have
}


MODULES = {sources.module_name(path) for path in sources.library_files()}

# Compiles, calls, tunes and uses the log in an interpreter that cannot import any extra.
_CORE_ALONE = """
import importlib.abc, os, sys

EXTRAS, log = sys.argv[1].split(), sys.argv[2]

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in EXTRAS:
            raise ImportError(f"{name} is an extra")

sys.meta_path.insert(0, Refuse())
import numpy as np
import loopwright as lw

def f(x, w, n):
    y = lw.nn.softmax(np.maximum(x @ w, 0))
    return lw.fori_loop(0, n, lambda i, y: y + np.sort(y)[:, ::-1] / 2, y)

x, w = (np.random.default_rng(0).random(s, np.float32) for s in ((8, 16), (16, 8)))
n = np.int64(3)

def check(g):
    np.testing.assert_allclose(g(x, w, n), f(x, w, n), rtol=1e-4)

g = lw.compile(f)
check(g)
check(lw.compile(f, dynamic=True))
lowered = g.lower(x, w, n)
assert all(lowered.as_text(level) for level in ("graph", "kernels", "loops", "program", "llvm"))
check(lw.build(lw.parse(lowered.as_text("graph"))))
g.tune(x, w, n, budget=1, log=log)
assert os.path.getsize(log)
with lw.log(log):
    check(lw.compile(f))
try:
    lw.compile(lambda x: x if x > 0 else -x)(np.float32(2))
except lw.LoopwrightError as error:
    assert "lw.cond, lw.while_loop or lw.fori_loop" in str(error)
"""


def test_every_import_is_one_that_its_room_may_make() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources.library_files()
        for name, line in sources.imports(path)
        if name.split(".")[0] == "loopwright"
        and not sources.room_of(sources.module_name(path)).may_import(sources.room_of(name))
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_below_the_face_stand_on_floors() -> None:
    """No two rooms may import each other, neither directly nor by way of others."""
    rooms = [room for room in sources.ROOMS if "*" not in room.imports]
    may_import = {
        room.names[0]: {o.names[0] for o in rooms if o is not room and room.may_import(o)}
        for room in rooms
    }
    circles = _strong_components(may_import)
    assert not circles, "\n".join(" <-> ".join(sorted(c)) for c in circles)


def test_libraries_are_loaded_where_they_belong() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources.library_files()
        for name, line in sources.imports(path)
        if not _may_load(sources.module_name(path), name.split(".")[0])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_circles_between_files() -> None:
    """A late import to dodge a circle is still a circle, so imports inside functions count."""
    edges = {
        sources.module_name(path): {n for n, _ in sources.imports(path) if "loopwright" in n}
        for path in sources.library_files()
    }
    circles = _strong_components(edges)
    assert not circles, "\n".join(" -> ".join(sorted(c)) for c in circles)


def test_the_core_imports_no_extra() -> None:
    """Not even late: it asks ``loopwright/extras.py`` for an entry by name."""
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources.core_files()
        for name, line in sources.imports(path)
        if sources.is_extra(name) and line not in sources.imports_of_type_checkers(path)
    ]
    assert not wrong, "\n".join(wrong)
    assert {sources.room_of(m) for m in MODULES} == set(sources.ROOMS)


def test_the_core_runs_where_no_extra_can_be_imported(tmp_path: Path) -> None:
    extras = " ".join(name for name in MODULES if sources.is_extra(name))
    arguments = [sys.executable, "-c", _CORE_ALONE, extras, str(tmp_path / "log.jsonl")]
    unverified = {**os.environ, "LOOPWRIGHT_VERIFY": "0"}  # to verify is an extra
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=unverified)
    assert done.returncode == 0, done.stderr


def test_imports_by_name_are_in_tables() -> None:
    lines = {str(p): sources.computed_imports(p) for p in sources.library_files()}
    assert {p: len(found) for p, found in lines.items() if found} == {
        "loopwright/__init__.py": 1,  # what takes long to load, and few programs ask for
        "loopwright/extras.py": 1,
    }


def _may_load(importer: str, library: str) -> bool:
    if library in ("loopwright", "numpy", "__future__") or library in sys.stdlib_module_names:
        return True
    return any(sources.short_name(importer).startswith(home) for home in LIBRARIES.get(library, ()))


def _strong_components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Groups of two and more modules that reach each other."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in edges.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen

    reached = {name: reach(name) for name in edges}
    found: list[set[str]] = []
    for name in edges:
        group = {n for n in reached[name] if n in edges and name in reached[n]} | {name}
        if len(group) > 1 and group not in found:
            found.append(group)
    return found
