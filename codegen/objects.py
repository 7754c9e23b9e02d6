"""Object code of LLVM texts, compiled once per process and shared by all programs that use it.

LLVM runs without the GIL. ``begin_object`` leaves a text to a thread beside the caller, which goes
on writing the next kernel in the meantime; ``object_code`` waits for what has been begun. It is one
thread, since llvmlite lets only one in at a time, and one keeps up with the Python part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

from .llvm.engine import compile_object
from .llvm.link import LoadedObject, load_object
from .llvm.store import store, stored_object
from .module_text import ModuleText
from .runtime import pool
from .target import Target

KEPT_OBJECTS = 4096
"""Object files remembered; the one not used for the longest time goes first (a few KB each)."""

SWITCH_INTERVAL = 1e-4
"""Seconds after which a thread that runs Python hands the GIL to one that waits for it, while LLVM
is at work: it takes the GIL some twenty times per kernel, and Python's 5 ms would stop it."""

Text: TypeAlias = str | ModuleText
Key: TypeAlias = tuple[str, Target]

_lock = threading.Lock()
_objects: OrderedDict[Key, bytes] = OrderedDict()
_loaded: WeakValueDictionary[Key, LoadedObject] = WeakValueDictionary()


def code_hash(*codes: bytes | str) -> str:
    """A hash of texts or object code, as hexadecimal digits."""
    digest = hashlib.sha256()
    for code in codes:
        data = code.encode() if isinstance(code, str) else code
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class _Background:
    """Compiles texts in a thread that lives as long as there are any."""

    def __init__(self, compile: Callable[[Text, Target], bytes]) -> None:
        self._compile = compile
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Key, Text] = OrderedDict()
        self._running: Key | None = None
        self._thread: threading.Thread | None = None
        self.interval = 0.0  # of the interpreter, while no thread is at work

    @property
    def is_busy(self) -> bool:
        """True if the thread is at work."""
        return self._thread is not None

    def begin(self, text: Text, target: Target) -> None:
        """Leaves a text to the thread."""
        with self._changed:
            self._waiting[_key(text, target)] = text
            if self._thread is None:
                # Both under the lock, so that a thread that ends hands over what it found.
                self.interval = sys.getswitchinterval()
                sys.setswitchinterval(min(self.interval, SWITCH_INTERVAL))
                # Not a daemon: the process must not leave while LLVM is at work.
                self._thread = threading.Thread(target=self._work, name="loopwright-llvm")
                self._thread.start()

    def finish(self, key: Key) -> None:
        """Returns when nothing is going to be done for ``key`` in the thread any more; what it has
        not begun is left to the caller."""
        with self._changed:
            self._waiting.pop(key, None)
            while self._running == key:
                self._changed.wait()

    def _work(self) -> None:
        while (job := self._take()) is not None:
            with contextlib.suppress(Exception):  # arises again, where the code is asked for
                self._compile(*job)

    def _take(self) -> tuple[Text, Target] | None:
        """Takes the next text; None if there is none, and the thread ends."""
        with self._changed:
            self._running = None
            self._changed.notify_all()
            if not self._waiting or not threading.main_thread().is_alive():
                self._waiting.clear()
                self._thread = None
                sys.setswitchinterval(self.interval)
                return None
            self._running, text = self._waiting.popitem(last=False)
            return text, self._running[1]


def _key(text: Text, target: Target) -> Key:
    return text if isinstance(text, str) else text.identity, target


def _compiled(text: Text, target: Target) -> bytes:
    """Returns object code that is remembered, or is from now on."""
    code = _remembered(_key(text, target))
    if code is None:
        if isinstance(text, str):
            code = stored_object(text, target, "entry of a program")
        elif not text.stored:
            code = stored_object(text.text, target, text.label)
        else:  # it was not there when its kernel was made
            code = compile_object(text.text, target)
            store().put(text.stored, text.label, code)
        remember_object(text, target, code)
    return code


def _remembered(key: Key) -> bytes | None:
    with _lock:
        code = _objects.get(key)
        if code is not None:
            _objects.move_to_end(key)
        return code


_background = _Background(_compiled)


def _forget_background() -> None:
    global _background, _lock
    if _background.is_busy:
        sys.setswitchinterval(_background.interval)
    _lock = threading.Lock()
    _background = _Background(_compiled)  # its thread is not in a forked process


os.register_at_fork(after_in_child=_forget_background)


def begin_object(text: Text, target: Target) -> None:
    """Compiles an LLVM module text beside the caller, who asks ``object_code`` for it later."""
    if _remembered(_key(text, target)) is None:
        _background.begin(text, target)


def object_code(text: Text, target: Target) -> bytes:
    """Returns the object code of an LLVM module text; compiled the first time only."""
    key = _key(text, target)
    code = _remembered(key)
    if code is None:
        _background.finish(key)
        code = _compiled(text, target)
    return code


def remember_object(text: Text, target: Target, code: bytes) -> None:
    """Keeps object code that was compiled from ``text`` elsewhere."""
    with _lock:
        _objects[_key(text, target)] = code
        if len(_objects) > KEPT_OBJECTS:
            _objects.popitem(last=False)


def loaded_code(
    text: Text, target: Target, replaced: Mapping[str, int] | None = None
) -> LoadedObject:
    """Returns the object code linked into the process, shared while anyone holds it.

    It may call functions of the runtime, such as ``lw_parallel_for``. ``replaced`` has addresses of
    functions to call in place of the runtime's, by symbol; such code is not shared.
    """
    key = _key(text, target)
    with _lock:
        loaded = _loaded.get(key)
    if loaded is not None and replaced is None:
        return loaded
    symbols = {**pool.symbols(), **(replaced or {})}
    made = load_object(object_code(text, target), symbols)
    if replaced is not None:
        return made
    with _lock:
        return _loaded.setdefault(key, made)
