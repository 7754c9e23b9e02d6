"""The examples in the docstrings of the operators' modules run."""

import doctest
import importlib
import pkgutil

import loopwright.ir.ops as ops
import pytest

MODULES = [
    "loopwright.ir.tolerance",
    *(f"loopwright.ir.loop.{name}" for name in ("tensor", "reindex", "evaluate")),
]
MODULES += [f"loopwright.ir.ops.{m.name}" for m in pkgutil.iter_modules(ops.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
