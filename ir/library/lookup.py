"""Library functions by name."""

from __future__ import annotations

from ..errors import RAISE_FAILED, LoopwrightValueError
from .registry import DECLARING, TABLE, LibraryFunction
from .special import PREFIX, declare


def library_function(name: str) -> LibraryFunction:
    """Returns the function of that name; those that are not the user's own
    are declared when they are asked for.

    Raises LoopwrightValueError if there is none.
    """
    if name not in TABLE and name.startswith("numpy."):
        from . import linalg  # noqa: F401  # pyright: ignore
    if name not in TABLE and name == RAISE_FAILED:
        from . import checks  # noqa: F401  # pyright: ignore
    if name not in TABLE and name.startswith(PREFIX):
        declare(name)
    if name not in TABLE and (package := name.partition(".")[0]) in DECLARING:
        DECLARING[package](name)
    if name not in TABLE:
        raise LoopwrightValueError(
            f"there is no library function {name!r}",
            hint="import the module that declares it by lw.extern beforehand",
        )
    return TABLE[name]
