"""Who may import whom: the table of the architecture, held against every import in the sources."""

from __future__ import annotations

import sys
from pathlib import Path

import repo_sources as sources

# A layer may import itself and those listed; the longest prefix of a module's name is its layer.
# The files of ir/ that stand outside its packages (dtype, dims, span, errors) are the layer "ir".
BELOW = ("ir.*", "codegen.*", "tuning_logs")
LAYERS: dict[str, set[str]] = {
    "ir": set(),
    "ir.graph": {"ir", "ir.loop", "ir.schedule"},
    "ir.loop": {"ir"},
    "ir.ops": {"ir", "ir.graph", "ir.loop"},
    "ir.graph.fusion": {"ir", "ir.graph", "ir.loop", "ir.ops"},
    "ir.graph.passes": {"ir", "ir.graph", "ir.graph.fusion", "ir.loop", "ir.ops"},
    "ir.graph.pipeline": {"ir", "ir.graph", "ir.graph.passes"},
    "ir.schedule": {"ir", "ir.loop"},
    "ir.program": {"ir", "ir.loop"},
    # No compiler part: only the door to LLVM, through which the pool's own code is loaded.
    "codegen.runtime": {"ir", "codegen.llvm", "codegen.target"},
    "codegen.llvm": {"ir", "codegen.target"},
    "codegen": {"ir.*", "codegen.*"},
    # The rooms of the search engine. What stands beside them is shared by them (protocols,
    # settings, budgets, tasks), or is the choice that a compile makes (select).
    "autotune": {*BELOW, "autotune.log", "autotune.model", "autotune.space"},
    "autotune.log": {*BELOW, "autotune"},
    "autotune.space": {*BELOW, "autotune"},
    "autotune.model": {*BELOW, "autotune", "autotune.log", "autotune.space"},
    "autotune.measure": {*BELOW, "autotune", "autotune.log", "autotune.space"},
    "autotune.search": {*BELOW, *(f"autotune{r}" for r in ("", ".log", ".measure", ".model"))},
    "autotune.program": {*BELOW, "autotune", "autotune.*"},
    "autotune.logtool": {*BELOW, "autotune", "autotune.*"},
    "tracer": {"ir.*"},
    "tuning_logs": set(),
    "loopwright": {"*"},
}

# Libraries that only some files may load. Everything else may use the standard library and NumPy.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "llvmlite": ("codegen.llvm", "loopwright.requirements"),
    "xgboost": ("autotune.model",),
    "tqdm": ("autotune.progress",),
    "dask": ("autotune.measure.dask_runner",),
    "distributed": ("autotune.measure.dask_runner",),
    "google": ("tracer.frontends.onnx",),  # protobuf, which comes with onnx
    "onnx": ("tracer.frontends.onnx",),
    "scipy": ("ir.library.special",),  # a saved program that calls it
    "torch": ("tracer.frontends.torch",),
    "ml_dtypes": ("ir.dtype",),  # of bfloat16, which NumPy does not have
}


MODULES = {sources.module_name(path) for path in sources.library_files()}

# Commands are made of extras, and the face offers one to users.
MAY_IMPORT_EXTRAS = ("loopwright/commands/", "loopwright/__init__.py")

MOST_CORE_LINES = 108_174
"""Of the package without extras, as ``wc -l`` counts them. It rose from 65,291 for what models
need: operators with state, general convolutions, a cache of machine code, saved programs, profiles;
from 74,000 for loops, branches, functions and state on all levels; and from 88,000 for the rest of
NumPy: complex numbers, library calls, random numbers, sorting, the Array API; and from
104,000 for symbolic sizes on all levels, the order of axes behind reshapes, and blocks that are
transposed by a function."""


def test_every_import_goes_down_the_table() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources.library_files()
        for name, line in sources.imports(path)
        if name.split(".")[0] == "loopwright" and not _may_import(_short(path), name)
    ]
    assert not wrong, "\n".join(wrong)


def test_libraries_are_loaded_where_they_belong() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources.library_files()
        for name, line in sources.imports(path)
        if not _may_load(_short(path), name.split(".")[0])
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
        if not str(path).startswith(MAY_IMPORT_EXTRAS)
        for name, line in sources.imports(path)
        if sources.is_extra(name)
    ]
    assert not wrong, "\n".join(wrong)
    assert all(n in MODULES or any(m.startswith(f"{n}.") for m in MODULES) for n in sources.EXTRAS)


def test_imports_by_name_are_in_tables() -> None:
    lines = {str(p): sources.computed_imports(p) for p in sources.library_files()}
    assert {p: len(found) for p, found in lines.items() if found} == {
        "loopwright/__init__.py": 1,  # what takes long to load, and few programs ask for
        "loopwright/extras.py": 1,
    }


def test_the_core_grows_no_more() -> None:
    lines = sum(
        len((sources.ROOT / path).read_text().splitlines()) for path in sources.core_files()
    )
    assert lines <= MOST_CORE_LINES


def _short(path: Path) -> str:
    name = sources.module_name(path)
    return name.removeprefix("loopwright.") if path.parts[0] != "loopwright" else name


def _layer(name: str) -> str:
    fits = [layer for layer in LAYERS if name == layer or name.startswith(layer + ".")]
    return max(fits, key=len) if fits else name


def _may_import(importer: str, imported: str) -> bool:
    target = imported.removeprefix("loopwright.")
    if target.split(".")[0] not in sources.PARTS:
        target = "loopwright"
    own, other = _layer(importer), _layer(target)
    if own == other:
        return True
    for allowed in LAYERS[own]:
        if allowed in ("*", other, target):
            return True
        if allowed.endswith(".*") and (other + ".").startswith(allowed[:-1]):
            return True
    return False


def _may_load(importer: str, library: str) -> bool:
    if library in ("loopwright", "numpy", "__future__") or library in sys.stdlib_module_names:
        return True
    return any(importer.startswith(home) for home in LIBRARIES.get(library, ()))


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
