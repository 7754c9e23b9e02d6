"""Compiled code without the weights it was made from.

Once a function is compiled, its kernels read the packed constants only. The weights of the graph -
as captured, and as the passes have folded them - go; who asks for more than text traces again.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace
from typing import Any

import numpy as np

from ..codegen.program_from_graph import program_from_module
from ..driver.built import Built
from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError
from ..ir.graph.nodes import Module
from ..ir.graph.weights import constants_of, without_weights
from .ready import Specialisation

TRIMMED_BYTES = 1 << 24
"""Bytes of packed constants from which on memory that a compile freed is given back."""


def kept(made: Specialisation) -> Specialisation:
    """Returns code that is ready without the weights of its graph."""
    forget_pages(made.traced.module)
    traced = replace(made.traced, module=without_weights(made.traced.module))
    return replace(made, traced=traced, built=released(made.built))


def give_back(built: Built) -> None:
    """Give memory that compiling ``built`` has freed back to the system, if it was much; the GNU C
    library keeps freed memory for later."""
    constants = built.parts.program.constants if built.parts is not None else ()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and sum(c.region.nbytes for c in constants) >= TRIMMED_BYTES:
        trim(0)


def forget_pages(module: Module) -> None:
    """Let the system take back the pages of weights that are mapped from files: whoever holds the
    module, and reads them again, gets them from the file."""
    files: dict[int, mmap.mmap] = {}
    for value in constants_of(module):
        file = _mapped_file(value)
        if file is not None:
            files[id(file)] = file
    for file in files.values():
        file.madvise(mmap.MADV_DONTNEED)


def _mapped_file(value: Array) -> mmap.mmap | None:
    """Returns the file that an array is a view of, if nobody can have written to its pages."""
    owner: Any = value
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED") or owner.closed:
        return None
    return owner if memoryview(owner).readonly else None


def released(built: Built) -> Built:
    """Returns the code, with all its texts, but without the weights of its graphs."""
    source = built.source
    if source is None or not built.has_weights:
        return built
    weightless = replace(
        source,
        module=without_weights(source.module),
        lowered=without_weights(source.lowered),
        whole=False,
    )
    return replace(built, source=weightless)


def restored(built: Built, module: Module) -> Built:
    """Returns ``built`` with the weights of ``module``, the function traced anew.

    Raises LoopwrightValueError if the code was made from other weights.
    """
    source = built.source
    if source is None or built.has_weights:
        return built
    assert built.parts is not None
    lowered = source.lower(module)
    program = program_from_module(lowered, built.parts.kernels)
    wanted = {c.region.name: c.value for c in built.parts.program.constants}
    values = {c.region.name: c.value for c in program.constants}
    if wanted.keys() != values.keys() or not all(map(_equal, wanted.values(), values.values())):
        raise LoopwrightValueError(
            "arrays that the function reads from outside were written since it was compiled",
            hint="f.cache_clear(), so that the next call reads them anew",
        )
    return replace(built, source=replace(source, module=module, lowered=lowered, whole=True))


def _equal(old: Array | None, new: Array | None) -> bool:
    if old is None or new is None:
        return old is new
    return old is new or np.array_equal(_bytes(old), _bytes(new))


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
