"""The short way to code that is there: one flat key for a call's arguments, made in one pass.

``bind`` sorts arguments with care and says what is wrong with them; that takes tens of
microseconds. The key here tells calls apart at least as finely, so code that was found with care
once is found quickly ever after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .proxy import Proxy
from .pytree import children_of, flatten

__all__ = ["any_traced", "quick_key"]

_VALUES = (bool, str, type(None))


def quick_key(
    args: Sequence[Any], kwargs: Mapping[str, Any], static: frozenset[int | str]
) -> tuple[tuple[Any, ...], list[Any]] | None:
    """A hashable key, and the leaves that carry values, arrays and numbers, in the call's order.

    ``static`` holds the positions and names of static arguments. None stands for arguments that
    only ``bind`` can judge.
    """
    key: list[Any] = [len(args)]
    leaves: list[Any] = []
    try:
        for place, value in enumerate(args):
            if static and place in static:
                key += (type(value), value)
            elif not _add(value, key, leaves):
                return None
        for name, value in kwargs.items():
            key.append(name)
            if name in static:
                key += (type(value), value)
            elif not _add(value, key, leaves):
                return None
        whole = tuple(key)
        hash(whole)
    except TypeError:  # a static value that has no hash
        return None
    return whole, leaves


def _add(value: Any, key: list[Any], leaves: list[Any]) -> bool:
    cls = type(value)
    if cls is np.ndarray:
        key += (value.shape, value.dtype)
        leaves.append(value)
        return True
    if cls is float or cls is int:
        key.append(cls)
        leaves.append(value)
        return True
    if cls in _VALUES:
        key += (cls, value)
        return True
    if issubclass(cls, np.generic):
        key += (None, value.dtype)  # no array of rank 0: that can be changed in place
        leaves.append(value)
        return True
    inside = children_of(value)
    if inside is None:
        return False
    children, rest = inside
    key += (cls, len(children), rest)
    return all(_add(child, key, leaves) for child in children)


def any_traced(values: Iterable[Any]) -> bool:
    """Whether there is a traced array among ``values``, or in a container among them."""
    return any(type(leaf) is Proxy for leaf in flatten(list(values))[0])
