"""The repository's own sources, for the tests that read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("loopwright", "tracer", "ir", "autotune", "codegen", "tuning_logs")

ROOMS_FILE = ROOT / "tests" / "repo" / "rooms.txt"


@dataclass(frozen=True)
class Room:
    """A row of the list of rooms."""

    names: tuple[str, ...]
    most_lines: int
    imports: tuple[str, ...]
    purpose: str
    is_extra: bool

    def may_import(self, other: Room) -> bool:
        """True if files of this room may import those of another one."""
        return self is other or any(
            pattern in ("*", name) or (pattern[-2:] == ".*" and f"{name}.".startswith(pattern[:-1]))
            for pattern in self.imports
            for name in other.names
        )


def read_rooms() -> tuple[int, list[Room]]:
    """Returns the most lines of the core, and the rows of the list of rooms."""
    core, _, extras = ROOMS_FILE.read_text().partition("\n--")
    rows = [(r.split("|"), n > 0) for n, t in enumerate((core, extras)) for r in t.splitlines()]
    cells = [([c.strip() for c in row], extra) for row, extra in rows if len(row) == 4]
    cells = [(c, extra) for c, extra in cells if not c[0].startswith("#")]
    most = re.search(r"^core \| (.*)$", core, re.M)
    assert most
    return sum(map(int, re.findall(r"\d+", most[1]))), [
        Room(tuple(c[0].split()), int(c[1]), tuple(c[2].split()), c[3], extra) for c, extra in cells
    ]


MOST_CORE_LINES, ROOMS = read_rooms()


@cache
def room_of(module: str) -> Room:
    """The room of a module, named as it is imported."""
    name = short_name(module)
    fits = [(len(n), r) for r in ROOMS for n in r.names if name == n or name.startswith(f"{n}.")]
    return max(fits, key=lambda fit: fit[0])[1]


def short_name(module: str) -> str:
    """``loopwright.ir.dims`` is called ``ir.dims``; modules of the face keep their name."""
    rest = module.removeprefix("loopwright.")
    return rest if rest.split(".")[0] in PARTS else module


def is_extra(module: str) -> bool:
    """True if a module of this name is part of what the core does without."""
    return short_name(module).split(".")[0] in PARTS and room_of(module).is_extra


def lines_of_rooms() -> dict[Room, int]:
    """Lines of every room today, those of LLVM text as well."""
    lines = dict.fromkeys(ROOMS, 0)
    for path in (*library_files(), *llvm_files()):
        lines[room_of(module_name(path))] += len((ROOT / path).read_text().splitlines())
    return lines


def llvm_files() -> list[Path]:
    """Every file of LLVM text of the package, relative to the root."""
    return [p.relative_to(ROOT) for part in PARTS for p in sorted((ROOT / part).rglob("*.ll"))]


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


def imports_of_type_checkers(path: Path) -> set[int]:
    """The lines inside of ``if TYPE_CHECKING:``, which no interpreter runs."""
    blocks = [
        node
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {line for b in blocks for s in b.body for line in range(s.lineno, s.end_lineno or 0)} | {
        s.end_lineno or 0 for b in blocks for s in b.body
    }


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
