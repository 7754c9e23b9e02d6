"""The operators that are known, by name.

The graph's language is the same whatever operators there are, so the table stands here and is empty
until ``ir/ops`` fills it; a parser looks names up in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ops.registry import Operator

__all__ = ["OPERATORS"]

OPERATORS: dict[str, Operator] = {}
