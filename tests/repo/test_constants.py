"""Numbers of rules and features have a name and a sentence in a settings or core description."""

from __future__ import annotations

import ast

import pytest
import repo_sources as sources

DESCRIPTIONS = ("autotune/space/settings.py", "codegen/core.py")
KEPT = ("FEATURE_VERSION",)  # numbers that are no setting


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _numbers(tree: ast.Module) -> list[str]:
    """The names that a module's own statements give to numbers."""
    found: list[str] = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if targets and _is_number(node.value):
            found += [ast.unparse(target) for target in targets]
    return found


def test_no_number_of_a_rule_or_feature_stands_alone() -> None:
    alone = [
        f"{path}: {name}"
        for path in sources.library_files()
        if str(path).startswith(("autotune/space/", "autotune/model/", "autotune/selection/"))
        for name in _numbers(ast.parse((sources.ROOT / path).read_text()))
        if name not in KEPT
    ]
    assert not alone, "\n".join(alone)


@pytest.mark.parametrize("path", DESCRIPTIONS)
def test_every_number_of_a_description_has_a_sentence(path: str) -> None:
    lines = (sources.ROOT / path).read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    fields = [
        node
        for group in tree.body
        if isinstance(group, ast.ClassDef)
        for node in group.body
        if isinstance(node, ast.AnnAssign)
    ]
    bare = [ast.unparse(f) for f in fields if not lines[f.lineno - 1].rstrip().endswith(".")]
    assert len(fields) > 20 and not bare, "\n".join(bare)


def test_every_setting_is_read() -> None:
    """A number that nothing reads is not a setting."""
    text = "\n".join(
        (sources.ROOT / path).read_text()
        for path in sources.library_files()
        if str(path) not in DESCRIPTIONS
    )
    unread = [
        f"{path}: {node.target.id}"
        for path in DESCRIPTIONS
        for group in ast.parse((sources.ROOT / path).read_text()).body
        if isinstance(group, ast.ClassDef)
        for node in group.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and f".{node.target.id}" not in text
    ]
    assert not unread, "\n".join(unread)
