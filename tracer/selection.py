"""``x[mask] += value``: the elements that a mask chooses, between being read and being written."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..ir.errors import UnsupportedError
from . import misuse
from .dispatch import METHODS, UFUNCS
from .emitting import lift
from .operators import IN_PLACE
from .proxy import Proxy, run
from .shaping import broadcast_to, reshape

__all__ = ["Selection", "masked", "wide_mask"]


class Selection:
    """``x[mask]`` of which Python wants to know what ``+=`` makes of it. How many elements that
    are depends on values; what is done to each of them is done to all, and kept where the mask
    holds."""

    __slots__ = ("array", "mask")
    __array_ufunc__ = None

    def __init__(self, array: Proxy, mask: Any) -> None:
        self.array = array
        self.mask = mask

    def __getattr__(self, name: str) -> NoReturn:
        raise misuse.mask_index()


METHODS["getitem.mask"] = Selection


def masked(value: Any, mask: Proxy, x: Proxy) -> Proxy:
    """``value`` as it is assigned to the elements that the mask chooses, in the shape of ``x``."""
    found = lift(value)
    rest = x.shape[mask.ndim :]
    shape = found.shape[1:] if found.ndim > len(rest) and found.shape[0] == 1 else found.shape
    if len(shape) > len(rest):
        raise UnsupportedError(
            f"x[mask] = values: how many of {found.type.short} are taken depends on the mask",
            hint="np.where(mask, values of the shape of x, x)",
        )
    return found if shape == found.shape else reshape(found, shape)


def wide_mask(mask: Proxy, x: Proxy) -> Proxy:
    """A mask of the leading axes of ``x`` in the shape of ``x``."""
    column = reshape(mask, (*mask.shape, *(1 for _ in x.shape[mask.ndim :])))
    return broadcast_to(column, x.shape)


def _add_operators() -> None:
    for name, ufunc in IN_PLACE.items():

        def operator(self: Selection, value: Any, ufunc: np.ufunc = ufunc) -> Selection:
            x, mask = self.array, self.mask

            def into(x: Proxy, value: Any) -> None:
                result = UFUNCS[ufunc](x, masked(value, lift(mask), x))
                where = wide_mask(lift(mask), x)
                METHODS["ufunc.out"](ufunc.__name__, result, (x,), "same_kind", where)

            run(ufunc.__name__, into, (x, value))
            return self

        setattr(Selection, name, operator)


_add_operators()
