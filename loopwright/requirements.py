"""Imported before the rest of the package: older dependencies are refused in a sentence."""

from __future__ import annotations

import llvmlite
import numpy

from .ir.floors import require

__all__: list[str] = []

for _package in (numpy, llvmlite):
    require(_package)
