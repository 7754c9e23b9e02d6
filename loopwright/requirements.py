"""Imported before the rest of the package: older dependencies are refused in a sentence."""

from __future__ import annotations

import gc

import llvmlite
import numpy

from .ir.floors import require

__all__ = ["loaded"]

for _package in (numpy, llvmlite):
    require(_package)

_collecting = gc.isenabled()
gc.disable()  # what an import makes stays: looking it through takes a twentieth of the time


def loaded() -> None:
    """Called when the package is there: garbage is collected again, if it was before."""
    if _collecting:
        gc.enable()
