"""Checks dependencies before the rest of the package is imported: too old ones are refused."""

from __future__ import annotations

import gc

import llvmlite
import numpy

from .ir.floors import require

for _package in (numpy, llvmlite):
    require(_package)

_collecting = gc.isenabled()
gc.disable()  # what an import makes stays: looking it through takes a twentieth of the time


def loaded() -> None:
    """Ends the import: enables garbage collection again, if it was enabled before."""
    if _collecting:
        gc.enable()
