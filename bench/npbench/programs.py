"""The programs of a checkout of NPBench: their arguments, functions and results."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Program", "fresh", "mistake", "names", "outcome"]


def names(folder: Path) -> list[str]:
    """Returns the names of all programs of a checkout, sorted."""
    return sorted(file.stem for file in (folder / "bench_info").glob("*.json"))


@dataclass(slots=True)
class Program:
    """The program ``name`` of a checkout in ``folder``, at one of its sizes: S, M, L or paper."""

    folder: Path
    name: str
    size: str

    @property
    def _facts(self) -> dict[str, Any]:
        text = (self.folder / "bench_info" / f"{self.name}.json").read_text()
        facts: dict[str, Any] = json.loads(text)["benchmark"]
        return facts

    def _module(self, ending: str) -> Any:
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        path = self._facts["relative_path"].replace("/", ".")
        return importlib.import_module(
            f"npbench.benchmarks.{path}.{self._facts['module_name']}{ending}"
        )

    def function(self, ending: str) -> Callable[..., Any]:
        """Returns the function of the file that ends so: ``_numpy``, ``_numba_n``, ``_jax``."""
        function: Callable[..., Any] = getattr(self._module(ending), self._facts["func_name"])
        return function

    def arguments(self) -> list[Any]:
        """Returns what the function is called with, by position."""
        facts = self._facts
        values = dict(facts["parameters"][self.size])
        if start := facts.get("init"):
            np.random.seed(0)  # some programs draw from NumPy's global generator
            make = getattr(self._module(""), start["func_name"])
            made = make(*(values[name] for name in start["input_args"]))
            made = made if isinstance(made, tuple) else (made,)
            values.update(zip(start["output_args"], made))
        return [values[name] for name in facts["input_args"]]


def outcome(arguments: list[Any], result: Any) -> list[np.ndarray[Any, Any]]:
    """Returns what a call gave and wrote: its results, then the arrays among its arguments."""
    results = list(result) if isinstance(result, tuple | list) else [result]
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    return [np.asarray(r) for r in results if r is not None] + arrays


def fresh(arguments: list[Any]) -> list[Any]:
    """Returns arguments that a call may write to."""
    return [a.copy() if isinstance(a, np.ndarray) else copy.deepcopy(a) for a in arguments]


def mistake(found: list[Any], expected: list[Any]) -> str:
    """Returns what differs from NumPy's outcome; nothing if it agrees."""
    if len(found) != len(expected):
        return f"{len(found)} arrays, not {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        if ours.shape != theirs.shape:
            return f"array {number} has the shape {ours.shape}, not {theirs.shape}"
        # As NPBench has it, by the norm: a few programs are chaotic.
        narrow = theirs.dtype.kind in "fc" and np.finfo(theirs.dtype).bits == 32
        scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
        close = 1e-4 if narrow else 1e-6
        if not np.allclose(ours, theirs, rtol=close, atol=close * scale, equal_nan=True):
            return f"array {number} differs by up to {np.max(np.abs(ours - theirs)):.3g}"
    return ""
