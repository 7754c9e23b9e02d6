"""Models whose code is kept on disk: another process maps it, and compiles nothing.

::

    from_onnx      hash of the file -> kept program -> calls                       (a hit)
                   hash of the file -> import -> compile at the first call -> kept (a miss)
    from_torch     import -> hash of the module -> kept program -> calls           (a hit)
                   import -> hash of the module -> compile -> kept                 (a miss)

A program is kept under all that it depends on: the content of the model's files, or the module's
text and constants, shapes, options, settings, the log in force, the processor, and the sources of
Loopwright. The hash of a file's content is kept, too, under the file's path, size and times, so
that it is computed once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.llvm.store import code_version, entry_key, store
from ..codegen.parallel_map import parallel_map
from ..codegen.runtime import pool
from ..codegen.saved_program import load_program
from ..codegen.target import Target
from ..config import Config
from ..driver.built import Built
from ..driver.options import session_log
from ..face.log_context import log_in_force
from ..face.module import CompiledModule, traced_calls
from ..face.ready import Specialisation
from ..face.user_errors import refuse_other_kind
from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightError, LoopwrightValueError
from ..ir.files import map_named
from ..ir.graph.printer import constants_of
from ..tracer import Request, Traced
from .saved import SavedFunction, save

if TYPE_CHECKING:
    from ..ir.graph.nodes import Module

WORTHWHILE_SECONDS = 0.5
"""Seconds that importing and compiling took, from which on a program is kept."""
CLOCK_SECONDS = 0.01
"""Seconds by which the times of files may lie behind the clock."""
SETTLED_SECONDS = 2.0
"""Seconds since the last change of a file after which its times tell the next one."""
HASHED_BYTES = 1 << 24
"""Bytes of a file that one thread hashes at a time."""
REASON = "compiled by a process before"
"""The reason that ``cache_info`` gives for code from the store."""
_KEYED = {"log", "threads", "precision", "target", "measure"}
"""Options of ``lw.compile`` that a kept program may have been compiled with."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The way to import a model: its file or bytes, and what ``from_onnx`` takes beside it.

    ``convert`` returns the module, its name, and the files that were read beside the model's.
    """

    source: str | Path | bytes
    shapes: Mapping[str, Any]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    convert: Callable[[], tuple[Module, str, list[Path]]]

    def key(self, contents: list[str]) -> str:
        """Returns the key of the program of files with these contents, "" for none of them."""
        if not contents or not self.is_keyed():
            return ""
        constants = [
            (n, [_constant(each) for each in (v if isinstance(v, list | tuple) else [v])])
            for n, v in sorted(self.constants.items())
        ]
        return _program_key(self.options, contents, sorted(self.shapes.items()), constants)

    def contents(self) -> list[str]:
        """Returns the hashes of the model and of the files beside it that it reads; nothing if it
        was not imported before, so that nobody knows which these are."""
        content = _hash_of(self.source)
        files = store("models").get(entry_key("files of a model", content))
        if files is None:
            return []
        beside = [self._folder / name for name in files.decode().split("\0") if name]
        with suppress(OSError):  # which of them is missing, and for what, the importer says
            return [content, *map(_hash_of, beside)]
        return []

    def note_files(self, files: list[Path], begun: float) -> list[str]:
        """Keeps which files a model reads beside its own, and returns the contents of all; nothing
        if one has changed since ``begun``, in seconds since 1970: what was read might be something
        else than what is there."""
        read = files if isinstance(self.source, bytes) else [Path(self.source), *files]
        if any(os.stat(file).st_ctime >= begun - CLOCK_SECONDS for file in read):
            return []
        content = _hash_of(self.source)
        names = "\0".join(str(file.relative_to(self._folder.resolve())) for file in files)
        entry = entry_key("files of a model", content)
        store("models").put(entry, "files of a model", names.encode())
        return [content, *map(_hash_of, files)]

    @property
    def _folder(self) -> Path:
        return Path() if isinstance(self.source, bytes) else Path(self.source).parent

    def is_keyed(self) -> bool:
        """True if programs are kept, a key can hold all that this one depends on, and nobody wants
        to look on."""
        sizes = [size for shape in self.shapes.values() for size in _sizes(shape)]
        return _is_keyed(self.options) and all(isinstance(size, int | str) for size in sizes)


class KeptCode(CompiledModule):
    """A module whose code is kept on disk, and taken from there if a process before has kept it."""

    _seconds = 0.0  # that importing took
    _asked = False  # the store, for code

    def _made(self, request: Request, config: Config) -> Specialisation:
        begun = time.perf_counter()
        key = "" if self._asked else self._program_key()
        self._asked = True
        kept = _kept_program(self._options, key)
        if kept is not None:
            traced = self._trace(request)
            self._signature.dynamic.traced(traced)
            return _of_store(traced, kept, time.perf_counter() - begun)
        made = super()._made(request, config)
        if key and self._seconds + made.seconds >= WORTHWHILE_SECONDS and self._is_still(key):
            # Not a daemon: a program that ends now waits for the file, so that the next one has it.
            threading.Thread(target=_keep, args=(key, made), name="loopwright-keep").start()
        return made

    def _program_key(self) -> str:
        """Returns the key of the code, "" if it has none."""
        if not _is_keyed(self._options):
            return ""
        module = self.module
        constants = [(n, _constant(value)) for n, value in sorted(constants_of(module).items())]
        return _program_key(self._options, self._name, str(module), constants)

    def _is_still(self, _key: str) -> bool:
        """True if the program with this key is that of the module still."""
        return True

    def _code_in_use(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:  # code of the store has no texts and parts to look at
            for request in [r for r, made in self._known.items() if made.built.source is None]:
                del self._known[request]
            self._forget_ready()
            self._asked = True
        return super()._code_in_use(args, kwargs)


class KeptModule(KeptCode):
    """A model of a file. If a process before has kept its code, the model is imported when more
    than calls is asked for: its text, tuning, other threads."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        begun, date = time.perf_counter(), time.time()
        self._contents = recipe.contents() if recipe.is_keyed() else []
        kept = _kept_program(recipe.options, recipe.key(self._contents))
        self._key = ""
        if kept is None:
            module, name, files = recipe.convert()
            CompiledModule.__init__(self, module, name, **recipe.options)
            if recipe.is_keyed():
                self._key = recipe.key(recipe.note_files(files, date))
        self._seconds = time.perf_counter() - begun
        if kept is not None:
            self._declare(kept.traced, kept.inputs, kept.outputs, dict(recipe.options))
            self._known[kept.traced.request] = _of_store(kept.traced, kept, self._seconds)

    @property
    def module(self) -> Module:
        """The module that is compiled, imported now if it was not. Raises LoopwrightValueError if
        the model's files are not what they were when its code was taken from the store."""
        with self._lock:
            if not hasattr(self, "_module"):
                if self._recipe.contents() != self._contents:
                    raise LoopwrightValueError(
                        f"the files of {self._name} have changed since lw.from_onnx read them",
                        hint="lw.from_onnx once more",
                    )
                self._module, name, _ = self._recipe.convert()
                self._traced = traced_calls(self._module, name)
        return self._module

    def _trace(self, request: Request, _borrowed: Any = None, _checks: bool = False, /) -> Traced:
        refuse_other_kind(self._traced, request)
        assert self.module
        return self._traced

    def _program_key(self) -> str:
        return self._key

    def _is_still(self, key: str) -> bool:
        return key == self._recipe.key(self._recipe.contents())


def _of_store(traced: Traced, kept: SavedFunction, seconds: float) -> Specialisation:
    """Returns the code of a kept program, found in so many seconds."""
    built = Built(kept.executable, kept.executable.call, inputs=kept.executable.inputs)
    return Specialisation(traced, built, REASON, seconds)


def _is_keyed(options: Mapping[str, Any]) -> bool:
    """True if programs are kept, a key can hold the options, and nobody wants to look on."""
    config = Config.read()
    watched = config.debug or config.dump or config.trace or config.explain or config.tune
    keyed = all(n in _KEYED or v is None for n, v in options.items())
    return store("programs").keeps and not watched and keyed


def _program_key(options: Mapping[str, Any], *model: Any) -> str:
    """Returns the key of the program of a model under these options, and under all settings."""
    config = Config.read()
    target = Target.named(options.get("target")) or Target.host()
    log = log_in_force(options.get("log"), config.log)
    if log is None and session_log.cache_info().currsize:
        log = session_log()
    state = log.stat() if log is not None and log.exists() else None
    return store("programs").key(
        "program",
        code_version("loopwright", "tracer"),
        *model,
        [options.get(name) for name in ("threads", "precision", "measure")],
        config,
        state and (log, state.st_size, state.st_mtime_ns),
        replace(target, features=frozenset[str]()),
        sorted(target.features),
        pool.get_threads(),
    )


def _kept_program(options: Mapping[str, Any], key: str) -> SavedFunction | None:
    """Returns the program of a model that a process before has kept, if there is one."""
    path = store("programs").file(key) if key else None
    if path is None:
        return None
    try:
        # Copied, so that weights lie in huge pages as those of a program that is compiled do.
        return SavedFunction(path, options.get("threads"), partial(load_program, mapped=False))
    except (LoopwrightError, OSError):
        with suppress(OSError):
            path.unlink()
        return None


def _keep(key: str, made: Specialisation) -> None:
    """Writes a program to the store, if it can be saved."""
    parts = made.built.parts
    if parts is None:
        return
    size = sum(c.value.nbytes for c in parts.program.constants if c.value is not None)
    with suppress(LoopwrightError):
        store("programs").keep(
            key, size, lambda path: save(made.traced, made.built, (), path, with_source=False)
        )


def _hash_of(source: str | Path | bytes) -> str:
    """Returns the hash of a file's content, or of bytes."""
    if isinstance(source, bytes):
        return _content_hash(memoryview(source))
    state, models = os.stat(source), store("models")
    place = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    entry = entry_key("content of a file", os.path.abspath(source), place)
    content = models.get(entry)
    if content is not None:
        return content.decode()
    digest = _content_hash(memoryview(map_named(source)))
    if time.time() - max(state.st_mtime, state.st_ctime) > SETTLED_SECONDS:
        models.put(entry, f"content of {Path(source).name}", digest.encode())
    return digest


def _content_hash(data: memoryview) -> str:
    chunks = [data[begin : begin + HASHED_BYTES] for begin in range(0, len(data), HASHED_BYTES)]
    digests = parallel_map(lambda chunk: hashlib.sha256(chunk).digest(), chunks) if chunks else []
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _constant(value: Any) -> tuple[Any, ...]:
    """Returns what tells a constant from others: an array, an element of a sequence, or None."""
    if value is None:
        return ()
    array = np.asarray(value)
    if array.dtype.hasobject:  # which the importer refuses
        return (array.dtype.name, array.shape)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return array.dtype.name, array.shape, _content_hash(data)


def _sizes(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)
