"""Loads a library for the cost model without the packages that it can do without.

``import xgboost`` takes 1.3 s of CPU where scikit-learn is installed and 0.3 s where it is not. A
search makes no use of it, so that the library is loaded as if scikit-learn were missing. It is a
copy under a name of its own: an ``import xgboost`` of the user's gets the whole one.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any


def load_apart(name: str, without: tuple[str, ...]) -> ModuleType:
    """Returns the package ``name``, whose imports of the packages ``without`` fail if they are not
    loaded yet. Raises ImportError if it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    alias = f"_loopwright_{name}"
    places = spec.submodule_search_locations
    spec = importlib.util.spec_from_file_location(
        alias, spec.origin, submodule_search_locations=places
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    missing: Any = _Missing(without)
    sys.modules[alias] = module
    sys.meta_path.insert(0, missing)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for loaded in [n for n in sys.modules if n == alias or n.startswith(f"{alias}.")]:
            del sys.modules[loaded]
        raise
    finally:
        sys.meta_path.remove(missing)
    return module


class _Missing:
    """The finder by which some packages are missing in the thread that made it, and only there."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages
        self._thread = threading.get_ident()

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Raises ModuleNotFoundError for these packages; of all others, finds nothing."""
        if name in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not loaded here", name=name)
