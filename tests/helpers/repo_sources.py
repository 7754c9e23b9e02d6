"""The repository's own sources, for the tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("loopwright", "tracer", "ir", "autotune", "codegen", "tuning_logs")

EXTRAS = (
    "loopwright.autotune.logtool",
    "loopwright.autotune.measure.dask_runner",
    "loopwright.autotune.program.background",
    "loopwright.autotune.program.background_process",
    "loopwright.background",
    "loopwright.codegen.saved_program",
    "loopwright.commands.log_check",
    "loopwright.debug",
    "loopwright.inspect.report",
    "loopwright.inspect.roofline_svg",
    "loopwright.onnx_model",
    "loopwright.saved",
    "loopwright.torch_model",
    "loopwright.tracer.frontends",
    "loopwright.tuning.elsewhere",
    "loopwright.tuning.fresh",
)
"""Modules and packages that the core does without; see ``loopwright/extras.py``."""


def is_extra(name: str) -> bool:
    """True if a module of this name is part of an extra."""
    return any(name == extra or name.startswith(f"{extra}.") for extra in EXTRAS)


def core_files() -> list[Path]:
    """The files of the package that are no part of an extra."""
    return [path for path in library_files() if not is_extra(module_name(path))]


def library_files() -> list[Path]:
    """Every Python file of the package, relative to the root."""
    return [p.relative_to(ROOT) for part in PARTS for p in sorted((ROOT / part).rglob("*.py"))]


def all_files() -> list[Path]:
    """Every Python file of the project, relative to the root."""
    others = [
        p.relative_to(ROOT)
        for folder in ("tests", "bench", "examples", "tools")
        for p in sorted((ROOT / folder).rglob("*.py"))
    ]
    return library_files() + others


def module_name(path: Path) -> str:
    """``ir/graph/nodes.py`` is imported as ``loopwright.ir.graph.nodes``."""
    parts = path.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts if parts[0] == "loopwright" else ("loopwright", *parts))


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """(absolute module name, line) of every import, those for type checkers included, and of every
    call of ``import_module`` with a literal."""
    tree = ast.parse((ROOT / path).read_text())
    package = module_name(path)
    if path.name != "__init__.py":
        package = package.rpartition(".")[0]
    return [found for node in ast.walk(tree) for found in _imports_of(node, package)]


def _imports_of(node: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, node.lineno
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        # ``from ..ir import graph`` imports a module, ``from ..ir.graph import Var`` a name of one.
        for alias in node.names:
            yield (
                f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base,
                node.lineno,
            )
    if isinstance(node, ast.Call) and _is_import_module(node.func):
        name = node.args[0]
        if isinstance(name, ast.Constant):
            yield _absolute(str(name.value), package), node.lineno


def computed_imports(path: Path) -> list[int]:
    """The lines where ``import_module`` is given no literal: no reader can see what is imported."""
    text = (ROOT / path).read_text()
    return [
        node.lineno
        for node in ast.walk(ast.parse(text if "import_module" in text else ""))
        if isinstance(node, ast.Call)
        and _is_import_module(node.func)
        and not isinstance(node.args[0], ast.Constant)
    ]


def _is_import_module(function: ast.expr) -> bool:
    return "import_module" in (getattr(function, "id", ""), getattr(function, "attr", ""))


def _absolute(name: str, package: str) -> str:
    """``..ir`` in a package ``loopwright.tracer`` is ``loopwright.ir``."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - dots + 1], name[dots:]])


@cache
def _is_module(name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "loopwright":
        return False
    tails = [parts] if parts[1:2] and parts[1] not in PARTS else [parts[1:]]
    return any(
        (ROOT.joinpath(*t)).is_dir() or ROOT.joinpath(*t).with_suffix(".py").is_file()
        for t in tails
        if t
    )
