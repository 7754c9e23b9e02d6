"""The examples in docstrings run: those of operators' modules, and one of each public name."""

import doctest
import importlib
import pkgutil
import sys
import warnings

import loopwright as lw
import loopwright.ir.ops as ops
import numpy as np
import pytest

MODULES = [
    "loopwright.ir.tolerance",
    *(f"loopwright.ir.loop.{name}" for name in ("tensor", "reindex", "evaluate")),
]
MODULES += [f"loopwright.ir.ops.{m.name}" for m in pkgutil.iter_modules(ops.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def _is_documented(module, name):
    """True if a name is a function or class of a module, not something that it imports."""
    thing = getattr(module, name)
    listed = name in getattr(module, "__all__", ()) or module is lw.nn
    here = listed or getattr(thing, "__module__", "") == module.__name__
    return name[0] != "_" and callable(thing) and here and not isinstance(thing, lw.Spec)


PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (lw, lw.nn, lw.random, lw.optim, lw.debug, lw.te)
    for name in getattr(module, "__all__", None) or vars(module)
    if _is_documented(module, name)
}
WITHOUT = {
    "loopwright.debug.NotFinite",  # what check_nans hands out, whose example shows one
    "loopwright.debug.Repro",  # read from a file that write_repro writes
    "loopwright.debug.breakpoint",  # it opens a debugger
}


def test_every_public_name_has_an_example():
    silent = {name for name, thing in PUBLIC.items() if ">>>" not in (thing.__doc__ or "")}
    assert silent == WITHOUT


def test_examples_of_public_names_run(tmp_path, monkeypatch):
    """With ``np``, ``lw`` and ``nn`` imported, and what stands beside the name in its module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPWRIGHT_VERIFY", "0")  # as users run them, and in half the time
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    runner.optionflags = doctest.ELLIPSIS
    ways = {"np": np, "lw": lw, "nn": lw.nn}
    with warnings.catch_warnings():
        for name, thing in PUBLIC.items():
            beside = vars(sys.modules.get(thing.__module__, lw))
            for test in finder.find(thing, name, globs=beside | ways):
                runner.run(test)
    assert runner.failures == 0
