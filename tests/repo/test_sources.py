"""Habits of the sources that a machine can keep."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import repo_sources as sources

LONGEST_FILE = 500

LONGER_FILES = {
    "examples/auto_loopwright.py": 1500,  # a compiler in one file is what it is for
    # Two jobs, or one that is told at length: they are to become two files, or shorter.
    "codegen/emit/values.py": 589,
    "ir/dims.py": 586,
    "tests/helpers/random_onnx_nodes.py": 529,
    "tests/helpers/random_python.py": 518,
    "tests/ir/graph/passes/test_fuse_operators.py": 513,
    "tests/ir/schedule/test_primitives.py": 513,
    "tests/ir/test_dim_table.py": 532,
    "tracer/core/proxy.py": 600,
    "tracer/numpy/indexing.py": 600,
}

# Where text for people goes straight to the terminal.
MAY_PRINT = ("loopwright/cli.py", "loopwright/commands/", "autotune/progress.py")


Trees = list[tuple[Path, ast.Module]]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """The files of the package, parsed."""
    return [(p, ast.parse((sources.ROOT / p).read_text())) for p in sources.library_files()]


def test_no_file_is_too_long() -> None:
    lengths = {
        str(p): len((sources.ROOT / p).read_text().splitlines())
        for p in (*sources.all_files(), *sources.llvm_files())
    }
    assert not {p: n for p, n in lengths.items() if n > LONGER_FILES.get(p, LONGEST_FILE)}
    shorter = {p for p in LONGER_FILES if lengths[p] <= LONGEST_FILE}
    assert not shorter, "short enough: take it off the list"


def test_every_file_says_what_it_is(trees: Trees) -> None:
    silent = [str(path) for path, tree in trees if not ast.get_docstring(tree)]
    assert not silent


def test_every_public_function_has_a_docstring(trees: Trees, imported: set[str]) -> None:
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name in imported
        and node.name[0] != "_"
        and not ast.get_docstring(node)
        and not _speaks_for_itself(node)
    ]
    assert not silent, "\n".join(silent)


def test_every_signature_is_annotated(trees: Trees) -> None:
    bare = []
    for path, tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            args = [a for a in args if a.arg not in ("self", "cls", "mcs")]
            if node.returns is None or any(a.annotation is None for a in args):
                bare.append(f"{path}:{node.lineno} {node.name}")
    assert not bare, "\n".join(bare)


def test_the_library_does_not_print(trees: Trees) -> None:
    loud = [
        f"{path}:{node.lineno}"
        for path, tree in trees
        if not str(path).startswith(MAY_PRINT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not loud, "\n".join(loud)


def test_dataclasses_are_those_that_import_quickly(trees: Trees) -> None:
    """``dataclass`` comes from ``ir/dataclass.py``; ``field``, ``replace`` and so on do not."""
    slow = [
        f"{path}:{node.lineno}"
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert not slow, "\n".join(slow)


def test_no_notes_to_self() -> None:
    marks = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{path}:{number}"
        for path in sources.library_files()
        for number, line in enumerate((sources.ROOT / path).read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


@pytest.fixture(scope="module")
def imported(trees: Trees) -> set[str]:
    """Names that one file of the package imports from another."""
    return {
        alias.name
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _speaks_for_itself(node: ast.FunctionDef) -> bool:
    """``main`` is described by its file, and what stands in for a NumPy function by NumPy."""
    decorators = " ".join(ast.unparse(d) for d in node.decorator_list)
    return node.name == "main" or any(
        w in decorators for w in ("overload", "implements(", "method(")
    )
