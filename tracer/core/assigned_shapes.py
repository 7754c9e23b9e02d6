"""``x.shape = (2, 3)``: the array becomes a view of what it was, in the same memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NoReturn

from ..memory.storage import Kind, View
from .misuse import shape_assigned


def assign_shape(array: Any, shape: Any, fail: Callable[..., NoReturn]) -> None:
    """Gives a traced array another shape. The views that it had are views of what it was.

    Fails where NumPy would make a copy, for an array of the caller, whose shape would
    change there, and for one of another scope: values decide whether it is taken.
    """
    home = array.storage.scope or array.owner.main
    mine = array.alias is not None or array.storage.kind is Kind.FRESH
    views = [holder for holder in gc.get_referrers(array) if type(holder) is View]
    if not mine or home is not array.owner.scope or any(v.replay is not None for v in views):
        fail(shape_assigned(), array)
    made = array.reshape(shape)
    alias = made.alias
    if alias is None or not alias.certain or alias.parent is not array:
        fail(shape_assigned(), array)
    before = type(array)(array.atom, array.owner, array.weak, array.alias)
    before.storage = array.storage
    before.restore(array.atom, array.storage.version)
    for view in (*views, alias):
        view.parent = before
    array.alias = alias
    array.restore(made.atom, array.storage.version)
