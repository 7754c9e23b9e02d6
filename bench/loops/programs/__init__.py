"""The programs, one function each, a file per family."""

from __future__ import annotations

from ..program import PROGRAMS
from . import linear, recursion, scalars, sequences, simulation, tables

__all__ = ["PROGRAMS", "linear", "recursion", "scalars", "sequences", "simulation", "tables"]
