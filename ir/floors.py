"""The lowest versions of the required packages; `make floors` runs with exactly these."""

from __future__ import annotations

from types import ModuleType

FLOORS = {"numpy": (2, 0), "llvmlite": (0, 48), "xgboost": (2, 0), "tqdm": (4, 60)}
"""Versions as pyproject.toml has them for all Pythons."""


def require(module: ModuleType, name: str = "") -> None:
    """Raises ImportError if an imported package, perhaps loaded as another name than its own
    ``name``, is older than it has to be."""
    name = name or module.__name__
    version = str(getattr(module, "__version__", "")) or "an unknown version"
    parts = tuple(int(p) if p.isdigit() else 0 for p in version.split(".")[:2])
    if parts < FLOORS[name]:
        lowest = ".".join(map(str, FLOORS[name]))
        raise ImportError(
            f"loopwright needs {name} {lowest} or newer, and {version} is installed here: "
            f"pip install --upgrade '{name}>={lowest}'"
        )
