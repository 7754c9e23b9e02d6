"""Every ``LOOPWRIGHT_*`` environment variable, declared once: type, default, help.

The environment is read when a setting is used, not when the package is imported, so a program (or
a test) may change it. A value that does not fit is an error that says what would; a variable that
looks like ours but is none of these is warned about.
"""

from __future__ import annotations

import difflib
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, field, fields
from pathlib import Path
from typing import Any

from .codegen.llvm.settings import DEFAULT_MEGABYTES, OFF
from .codegen.runtime.pool_text import MAX_THREADS
from .codegen.runtime.stack import DEFAULT_STACK_MEGABYTES, MOST_STACK_MEGABYTES
from .codegen.target import X86_LEVELS
from .ir.dataclass import dataclass
from .ir.errors import LoopwrightValueError

PREFIX = "LOOPWRIGHT_"
MEASURE = ("auto", "never")


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("", "0", "false", "no", "off"):
        return False
    if lowered in ("1", "true", "yes", "on"):
        return True
    raise ValueError("0 or 1")


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.strip().isdigit() or not low <= int(text) <= high:
            raise ValueError(f"an int from {low} to {high}")
        return int(text)

    return read


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _cache(text: str) -> Path | None:
    return Path(os.devnull) if text.lower() in OFF else _path(text)


def _megabytes(text: str) -> float:
    try:
        megabytes = float(text or DEFAULT_MEGABYTES)
    except ValueError:
        megabytes = -1.0
    if not 0 <= megabytes < math.inf:
        raise ValueError("a number of megabytes, 0 for none")
    return megabytes


def _one_of(*words: str) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        if text not in ("", *words):
            raise ValueError("one of " + ", ".join(words))
        return text or None

    return read


@contextmanager
def setting(name: str, text: str | None) -> Iterator[None]:
    """Sets an environment variable for a while; None leaves it alone."""
    before = os.environ.get(name)
    if text is not None:
        os.environ[name] = text
    try:
        yield
    finally:
        if text is not None:
            os.environ.pop(name)
            os.environ.update({} if before is None else {name: before})


def _precision(text: str) -> str | float | None:
    if text in ("strict", "standard", "bf16", "reproducible", ""):
        return text or None
    try:
        growth = float(text)
    except ValueError:
        growth = 0.0
    if not growth >= 1.0:
        raise ValueError("strict, standard, bf16, reproducible or a number from 1 on")
    return growth


def _about(read: Callable[[str], Any], takes: str, help: str) -> dict[str, Any]:
    return {"read": read, "takes": takes, "help": help}


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force; ``Config.read()`` takes them from the environment."""

    debug: int = field(
        default=0,
        metadata=_about(
            _between(0, 5),
            "0..5",
            "what to tell on stderr: 1 one line per compile, 2 also the graph after its passes, "
            "3 loop nests, 4 LLVM IR, 5 assembly",
        ),
    )
    explain: bool = field(
        default=False,
        metadata=_about(
            _flag, "0|1", "tell on stderr which loops are native, and why long ones were unrolled"
        ),
    )
    dump: Path | None = field(
        default=None,
        metadata=_about(
            _path,
            "folder",
            "write every level of each compile and what each pass changed, as numbered files",
        ),
    )
    trace: Path | None = field(
        default=None,
        metadata=_about(_path, "folder", "write a page for each compile: why, phases, kernels"),
    )
    verify: int = field(
        default=0,
        metadata=_about(
            lambda text: 2 if text == "2" else _flag(text),
            "0..2",
            "verify the IR between passes; 2: run the LLVM text of kernels as well",
        ),
    )
    check: bool = field(
        default=False,
        metadata=_about(
            _flag,
            "0|1",
            "run the code of default schedules against the reference before its first use, as that "
            "of all other schedules always is",
        ),
    )
    check_index: bool = field(
        default=True,
        metadata=_about(
            _flag,
            "0|1",
            "an index out of range is an IndexError (1); 0: it is clipped (read at compile)",
        ),
    )
    log: Path | None = field(
        default=None,
        metadata=_about(_path, "file", "the tuning log: schedules are read from it, runs appended"),
    )
    threads: int | None = field(
        default=None,
        metadata=_about(
            _between(1, MAX_THREADS), "n", "threads compiled code uses; else all cores"
        ),
    )
    precision: str | float | None = field(
        default=None,
        metadata=_about(
            _precision,
            "strict|standard|bf16|reproducible|n",
            "how far results may lie from sums of float32 taken term by term (standard)",
        ),
    )
    measure: str | None = field(
        default=None,
        metadata=_about(
            _one_of(*MEASURE),
            "auto|never",
            "race schedules of near shapes and other machines with the default at first use (auto)",
        ),
    )
    tune: str | None = field(
        default=None,
        metadata=_about(
            _one_of("quick", "background"),
            "quick|background",
            "tune functions when they are compiled, or while the program runs",
        ),
    )
    runner_key: Path | None = field(
        default=None,
        metadata=_about(_path, "file", "the key of the machines that tcp:// runners are"),
    )
    isa: str | None = field(
        default=None,
        metadata=_about(
            _one_of(*X86_LEVELS), "level", f"the highest ISA level to use: {', '.join(X86_LEVELS)}"
        ),
    )
    cache: Path | None = field(
        default=None,
        metadata=_about(
            _cache,
            "folder",
            "where machine code, measurements and verdicts on code are kept; 0: nowhere",
        ),
    )
    cache_size: float = field(
        default=DEFAULT_MEGABYTES,
        metadata=_about(
            _megabytes,
            "MB",
            f"how much machine code the cache keeps ({DEFAULT_MEGABYTES}); 0: none",
        ),
    )
    stack: int = field(
        default=DEFAULT_STACK_MEGABYTES,
        metadata=_about(
            _between(1, MOST_STACK_MEGABYTES),
            "MB",
            "memory for the frames of compiled functions that call themselves "
            f"({DEFAULT_STACK_MEGABYTES})",
        ),
    )
    repro: Path | None = field(
        default=None,
        metadata=_about(
            _path,
            "folder",
            "where programs are written that show a failure of the compiler (the cache); "
            "/dev/null: nowhere",
        ),
    )
    full_traceback: bool = field(
        default=False, metadata=_about(_flag, "0|1", "keep Loopwright's own frames in tracebacks")
    )
    traceback: bool = field(
        default=False,
        metadata=_about(_flag, "0|1", "the command line shows tracebacks, not one-line errors"),
    )

    @staticmethod
    def read() -> Config:
        """Returns the environment's settings. Raises LoopwrightValueError for a malformed one."""
        _warn_of_unknown()
        values: dict[str, Any] = {}
        for setting in fields(Config):
            text = os.environ.get(_variable(setting))
            if text is not None:
                values[setting.name] = _read(setting, text)
        return Config(**values)


def _variable(setting: Field[Any]) -> str:
    return PREFIX + setting.name.upper()


def _read(setting: Field[Any], text: str) -> Any:
    try:
        return setting.metadata["read"](text)
    except ValueError as error:
        raise LoopwrightValueError(
            f"{_variable(setting)}={text!r} is not {error}", notes=(setting.metadata["help"],)
        ) from None


_WARNED: set[str] = set()


def _warn_of_unknown() -> None:
    names = set(variables())
    for name in os.environ:
        if name.startswith(PREFIX) and name not in names and name not in _WARNED:
            _WARNED.add(name)
            near = difflib.get_close_matches(name, names, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            warnings.warn(f"{name} is not a setting of Loopwright{meant}", stacklevel=3)


def variables() -> Iterator[str]:
    """Yields the names of all environment variables.

    >>> "LOOPWRIGHT_DEBUG" in set(variables())
    True
    """
    return (_variable(setting) for setting in fields(Config))


def describe() -> str:
    """Returns a line per variable: the values it takes, and its effect."""
    rows = [
        (f"{_variable(s)}={s.metadata['takes']}", str(s.metadata["help"])) for s in fields(Config)
    ]
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)
