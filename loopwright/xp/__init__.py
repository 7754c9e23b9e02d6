"""``lw.xp``: the Array API standard (2024.12), on plain arrays and on traced ones.

>>> from loopwright import xp
>>> xp.sum(xp.ones((2, 3)))
np.float64(6.0)

A function written against it runs on NumPy arrays as it stands, and compiles. On plain arrays each
call is compiled, and its code kept for the kind of its arguments: their dtypes and shapes, and the
values of the others (``eager``). Functions that only make arrays or views of them are NumPy's
there, and so are those whose result has a size that depends on values: ``nonzero``, ``unique_*``.
While tracing these are errors.

::

    eager        one function for both kinds of calls
    elementwise  functions of single elements
    arrays       creation, shapes, indexing
    values       reductions, scans, sorting, searching, sets
    linalg, fft  the extensions
    info         dtypes and what there is

Names beside the standard's: ``einsum``, ``exp2``, ``split``.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, elementwise, fft, info, linalg, values
from .eager import defined

if TYPE_CHECKING:
    from .eager import __getattr__ as __getattr__

_NUMPYS = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
    e inf nan newaxis pi einsum exp2 split
"""
_SHARED = ("matmul", "tensordot", "vecdot")  # with the extension

_offered: dict[str, Any] = {name: getattr(np, name) for name in _NUMPYS.split()}
for _module in (info, arrays, elementwise, values):
    _offered |= defined(vars(_module))
_offered |= {name: vars(linalg)[name] for name in _SHARED}
globals().update(_offered)
__all__ = ["fft", "linalg", *_offered]  # pyright: ignore[reportUnsupportedDunderAll]

__array_api_version__ = "2024.12"


def __array_namespace_info__() -> info.Info:
    """Returns capabilities, devices and dtypes."""
    return info.Info()
