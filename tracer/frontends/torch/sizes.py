"""Symbolic sizes of PyTorch's tensors as those of the language."""

from __future__ import annotations

from typing import Any

import torch

from ....ir.dims import LARGEST_SIZE, IntExpr, product, size
from ....ir.errors import UnsupportedError


def size_of(value: int | torch.SymInt) -> IntExpr:
    """Returns a size of a tensor; that of a symbolic one is an expression of sizes with the ranges
    that PyTorch has found. Raises UnsupportedError for what is not a polynomial."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    node: Any = value.node
    return _expression(node.expr, node.shape_env.var_to_range)


def _expression(expr: Any, ranges: Any) -> IntExpr:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        inside = ranges.get(expr)
        if inside is None:
            return size(str(expr))
        return size(str(expr), max(0, int(inside.lower)), _most(inside.upper))
    parts = [_expression(part, ranges) for part in expr.args]
    if expr.is_Add:
        total: IntExpr = 0
        for part in parts:
            total = total + part
        return total
    if expr.is_Mul:
        return product(parts)
    raise UnsupportedError(f"a tensor has the size {expr}")


def _most(upper: Any) -> int:
    return int(min(upper, LARGEST_SIZE))
