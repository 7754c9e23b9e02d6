"""The programs, one function each, a file per family."""

from __future__ import annotations

from . import linear, recursion, scalars, sequences, simulation, tables

__all__ = ["linear", "recursion", "scalars", "sequences", "simulation", "tables"]
