"""The decompositions of PyTorch that run before the table sees a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from . import rows as rows  # fills the table
from .nodes import key_of
from .table import ROWS


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns the decompositions of operators that have no row: those to core ATen first."""
    rules = {**decomposition_table, **core_aten_decompositions()}
    return {op: rule for op, rule in rules.items() if not _stays(op)}


_WRITING = (torch.ops.aten.complex.default, torch.ops.aten.polar.default)
"""Operators whose decompositions write into views of their results, which a graph must not."""


def _stays(op: Any) -> bool:
    return op in _WRITING or (isinstance(op, torch._ops.OpOverload) and key_of(op) in ROWS)
