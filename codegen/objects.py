"""Object code of LLVM texts, compiled once per process and shared by all programs that use it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from weakref import WeakValueDictionary

from .llvm.engine import compile_object
from .llvm.link import LoadedObject, load_object
from .runtime import pool
from .runtime.blas import numpy_blas
from .target import Target

__all__ = ["code_hash", "loaded_code", "object_code", "remember_object"]

KEPT_OBJECTS = 4096
"""Object files remembered; the one not used for the longest time goes first (a few KB each)."""

_lock = threading.Lock()
_objects: OrderedDict[tuple[str, Target], bytes] = OrderedDict()
_loaded: WeakValueDictionary[tuple[str, Target], LoadedObject] = WeakValueDictionary()


def code_hash(*codes: bytes | str) -> str:
    """A hash of texts or object code, as hexadecimal digits."""
    digest = hashlib.sha256()
    for code in codes:
        data = code.encode() if isinstance(code, str) else code
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def object_code(text: str, target: Target) -> bytes:
    """Returns the object code of an LLVM module text; compiled the first time only."""
    key = (text, target)
    with _lock:
        code = _objects.get(key)
        if code is not None:
            _objects.move_to_end(key)
            return code
    code = compile_object(text, target)
    remember_object(text, target, code)
    return code


def remember_object(text: str, target: Target, code: bytes) -> None:
    """Keeps object code that was compiled from ``text`` elsewhere."""
    with _lock:
        _objects[text, target] = code
        if len(_objects) > KEPT_OBJECTS:
            _objects.popitem(last=False)


def loaded_code(text: str, target: Target) -> LoadedObject:
    """Returns the object code linked into the process, shared while anyone holds it.

    It may call functions of the runtime, such as ``lw_parallel_for``, and the routines of NumPy's
    BLAS if it enters that.
    """
    key = (text, target)
    with _lock:
        loaded = _loaded.get(key)
    if loaded is not None:
        return loaded
    symbols = dict(pool.symbols())
    if "@lw_blas_enter(" in text:
        blas = numpy_blas()
        symbols.update(blas.symbols if blas is not None else {})
    made = load_object(object_code(text, target), symbols)
    with _lock:
        return _loaded.setdefault(key, made)
