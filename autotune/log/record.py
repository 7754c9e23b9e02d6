"""One measured run, as the tuning log keeps it (schema version 1).

::

    {"v": 1,
     "workload": {"hash": "3f9a...", "text": "matmul float32 i=1000 j=384 k=512", "prim": "..."},
     "target": {"isa": "x86-64-v4", "cpu": "...", "cores": 2, "threads": 1,
                "l1": 49152, "l2": 1048576, "l3": 33554432},
     "schedule": [["split", "i", [125, 1, 8]], ...], "sketch": "contraction.register_tile/1",
     "seconds": [0.00147, 0.00146], "error": null, "detail": "",
     "checked": {"max_error": 1.1e-6, "bound": 3.1e-5},
     "seed": 7, "time": "2026-11-20T10:00:00Z", "loopwright": "0.1.0"}

A record of the leaders' last comparison has ``"raced": true`` as well, ``"cache"`` ("warm" or
"cold": whether ``seconds`` were taken with the operands in the caches), and may have
``"other_cache_seconds"``, some samples in the other mode. One that a search made says
which (``"run"``), when (``"at"`` seconds after its start), what the cost model had said before
(``"predicted"``, higher is faster), and what it cost (``"took": {"build": 0.01, "check": 0.002,
"run": 0.004}`` seconds of the workers). ``error`` is a word of ``ERRORS`` or null. Fields a reader
does not know are ignored; a greater ``v`` is a line of the future. Records are data: they are
validated, never executed. Lines that are no measured run are notes (``note``).
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...codegen.target import ISA_LEVELS, Target
from .line import RecordError, check_version, data_of

__all__ = [
    "ERRORS",
    "SCHEMA_VERSION",
    "Check",
    "MeasureRecord",
    "TargetKey",
    "Took",
    "Workload",
    "own_version",
    "record_from_data",
    "robust_seconds",
    "schedule_key",
    "seconds_from",
    "target_from",
    "target_key",
    "timestamp",
    "workload_from",
]

SCHEMA_VERSION = 1

ERRORS = {
    "schedule_error": "the schedule is illegal for this PrimFunc",
    "build_error": "no machine code could be made",
    "wrong_result": "the result disagrees with the reference",
    "out_of_bounds": "memory outside the operands was touched",
    "crash": "the process died",
    "timeout": "it took too long",
    "out_of_memory": "it wanted more memory than it may have",
}

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LOOSE_INTEGER = re.compile(r"(?<![\w.])[0-9]+(?![\w.])")
_MOST_DIGITS = 18  # of a size
_TEXT_LIMIT = 100_000
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Workload:
    """What is computed. ``text`` is for people, ``prim`` is the canonical text that was hashed.

    Two workloads of the same ``kind`` differ in sizes alone.
    """

    hash: str
    text: str = ""
    prim: str = ""

    @property
    def kind(self) -> str:
        """A hash of the canonical text with its integers left out; "" without such a text."""
        return _kind_and_sizes(self.prim)[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The integers of the canonical text, in order."""
        return _kind_and_sizes(self.prim)[1]

    def to_data(self) -> dict[str, str]:
        """What a line says of it."""
        prim = {"prim": self.prim} if self.prim else {}
        return {"hash": self.hash, "text": self.text, **prim}

    def distance(self, other: Workload) -> float:
        """How far apart the sizes are: the sum of |log2| of their ratios; inf between kinds.

        A text names the size of a loop wherever it uses it, in every operand and stage: what
        changes alike counts once.

        >>> a, b = Workload("a", prim="x[8], y[8, 3]"), Workload("b", prim="x[32], y[32, 3]")
        >>> round(a.distance(b), 3)
        1.874
        """
        if not self.kind or self.kind != other.kind:
            return math.inf
        changes = set(zip(self.sizes, other.sizes))
        return sum(abs(math.log2((a + 1) / (b + 1))) for a, b in changes)


@functools.lru_cache(maxsize=4096)
def _kind_and_sizes(prim: str) -> tuple[str, tuple[int, ...]]:
    if not prim:
        return "", ()
    shape = _LOOSE_INTEGER.sub("#", prim)
    numbers = _LOOSE_INTEGER.findall(prim)
    if any(len(number) > _MOST_DIGITS for number in numbers):
        return "", ()
    return hashlib.sha256(shape.encode()).hexdigest()[:16], tuple(map(int, numbers))


@dataclass(frozen=True, slots=True)
class TargetKey:
    """The machine a record was measured on, as far as it matters for speed. Sizes in bytes.

    Keys are equal if the same code is as fast on the same number of threads: how many cores a
    process may use besides (under ``taskset``, say), and how much of the last cache a guest is told
    that it has, change neither.
    """

    isa: str
    cpu: str
    cores: int = field(compare=False)
    threads: int
    l1: int
    l2: int
    l3: int = field(compare=False)

    @property
    def text(self) -> str:
        """``AMD EPYC, x86-64-v4, 2 threads``."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.cpu or 'unknown processor'}, {self.isa}, {threads}"

    def to_data(self) -> dict[str, str | int]:
        """What a line says of it."""
        return {name: getattr(self, name) for name in TargetKey.__slots__}

    def machine(self, features: Iterable[str] = ()) -> Target:
        """The target that a key describes. A size it does not know is that of ``Target()``.

        Raises KeyError for an ISA level that is not known here.
        """
        level = ISA_LEVELS[self.isa].name
        some = Target(level, self.cpu, self.cores, features=frozenset(features))
        sizes = {n: getattr(self, n) or getattr(some, n) for n in ("l1", "l2", "l3")}
        return replace(some, **sizes)


def target_key(target: Target, threads: int | None = None) -> TargetKey:
    """The key of a target when ``threads`` threads run the kernel (all cores by default)."""
    return TargetKey(
        target.isa,
        target.cpu,
        target.cores,
        threads or target.cores,
        target.l1,
        target.l2,
        target.l3,
    )


@dataclass(frozen=True, slots=True)
class Check:
    """The greatest error met, and what was allowed, both relative to the size of the result."""

    max_error: float
    bound: float


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds that workers spent on a candidate: making code, holding it against the reference
    (with loading it), and the samples with what was repeated."""

    build: float = 0.0
    check: float = 0.0
    run: float = 0.0


@dataclass(frozen=True)
class MeasureRecord:
    """One measured run. ``seconds`` holds the time per call of every sample, to six digits, as
    they are written: what was decided by them can be decided again from the file.

    ``raced`` records come from the comparison of the leaders, measured in turn, with their
    operands in the caches (``cache`` is "warm") or not ("cold"), and some samples the other way.
    ``run``, ``at``, ``predicted`` and ``took`` are there if a search made the record.
    """

    workload: Workload
    target: TargetKey
    schedule: tuple[Any, ...]
    sketch: str = ""
    seconds: tuple[float, ...] = ()
    error: str | None = None
    detail: str = ""
    checked: Check | None = None
    seed: int = 0
    time: str = ""
    version: str = ""
    raced: bool = False
    run: str = ""
    at: float | None = None
    predicted: float | None = None
    took: Took | None = None
    cache: str = "warm"
    other_cache_seconds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _rounded(self.seconds))

    @property
    def ok(self) -> bool:
        """Whether it ran, and passed the check."""
        return self.error is None and bool(self.seconds)

    @functools.cached_property
    def cost(self) -> float:
        """Seconds per call; inf if it failed."""
        return robust_seconds(self.seconds) if self.ok else math.inf

    def seconds_when(self, cache: str) -> tuple[float, ...]:
        """The samples with "warm" or "cold" caches; empty if there are none."""
        return self.seconds if cache == self.cache else self.other_cache_seconds

    @functools.cached_property
    def schedule_key(self) -> str:
        """The schedule as text: equal for equal schedules."""
        return schedule_key(self.schedule)

    def to_json(self) -> str:
        """One line without its line end."""
        check = self.checked
        more: dict[str, Any] = {"raced": True, "cache": self.cache} if self.raced else {}
        if self.run:
            more["run"] = self.run
        if self.at is not None:
            more["at"] = self.at
        if self.predicted is not None:
            more["predicted"] = float(f"{self.predicted:.5g}")
        if self.took is not None:
            more["took"] = {n: float(f"{getattr(self.took, n):.3g}") for n in Took.__slots__}
        if self.other_cache_seconds:
            more["other_cache_seconds"] = _rounded(self.other_cache_seconds)
        return json.dumps(
            {
                "v": SCHEMA_VERSION,
                "workload": self.workload.to_data(),
                "target": self.target.to_data(),
                "schedule": self.schedule,
                "sketch": self.sketch,
                "seconds": self.seconds,
                "error": self.error,
                "detail": self.detail,
                "checked": check and {"max_error": check.max_error, "bound": check.bound},
                "seed": self.seed,
                "time": self.time,
                "loopwright": self.version,
                **more,
            },
            allow_nan=False,
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(line: str | bytes) -> MeasureRecord:
        """Read one line. RecordError says what is wrong, FutureRecordError that it is too new."""
        return record_from_data(data_of(line))


def schedule_key(schedule: Any) -> str:
    """The canonical text of a schedule's JSON.

    >>> schedule_key((("split", "i", (2, 4)),))
    '[["split","i",[2,4]]]'
    """
    return _CANONICAL.encode(schedule)


def _rounded(seconds: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{s:.6g}") for s in seconds)


def robust_seconds(seconds: tuple[float, ...]) -> float:
    """The median of the faster half of the samples: noise only ever adds time.

    >>> robust_seconds((3.0, 1.0, 9.0, 1.2))
    1.1
    """
    faster = sorted(seconds)[: (len(seconds) + 1) // 2]
    middle = len(faster) // 2
    return faster[middle] if len(faster) % 2 else (faster[middle - 1] + faster[middle]) / 2


def timestamp() -> str:
    """The time now, in UTC, to the second."""
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache
def own_version() -> str:
    """Of the package, as lines name it; "" where it is not installed."""
    try:
        return version("loopwright")
    except PackageNotFoundError:
        return ""


def record_from_data(data: dict[str, Any]) -> MeasureRecord:
    """The record that parsed JSON says; errors as of ``MeasureRecord.from_json``."""
    if "v" not in data or "workload" not in data:
        raise RecordError("not a tuning record")
    check_version(data, SCHEMA_VERSION)
    error = data.get("error")
    if error is not None and not (isinstance(error, str) and _WORD.fullmatch(error)):
        raise RecordError("error is no word")
    seconds = tuple(seconds_from(s) for s in _list(data, "seconds"))
    if error is None and not seconds:
        raise RecordError("neither seconds nor an error")
    return MeasureRecord(
        workload=workload_from(data),
        target=target_from(data),
        schedule=tuple(_list(data, "schedule")),
        sketch=_text(data, "sketch"),
        seconds=seconds,
        error=error,
        detail=_text(data, "detail"),
        checked=_check(data.get("checked")),
        seed=_integer(data, "seed", least=0, default=0),
        time=_text(data, "time"),
        version=_text(data, "loopwright"),
        raced=data.get("raced") is True,
        run=_text(data, "run"),
        at=_optional(data.get("at")),
        predicted=_optional(data.get("predicted")),
        took=_took(data.get("took")),
        cache="cold" if data.get("cache") == "cold" else "warm",
        other_cache_seconds=_optional_seconds(data, "other_cache_seconds"),
    )


def workload_from(data: dict[str, Any]) -> Workload:
    """The ``workload`` of a line. RecordError if it is none."""
    workload = _object(data, "workload")
    return Workload(
        _text(workload, "hash", least=1), _text(workload, "text"), _text(workload, "prim")
    )


def target_from(data: dict[str, Any]) -> TargetKey:
    """The ``target`` of a line. RecordError if it is none."""
    target = _object(data, "target")
    return TargetKey(
        _text(target, "isa", least=1),
        _text(target, "cpu"),
        _integer(target, "cores", least=1, default=1),
        _integer(target, "threads", least=1, default=1),
        *(_integer(target, name, least=0, default=0) for name in ("l1", "l2", "l3")),
    )


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict):
        raise RecordError(f"{name} is no object")
    return value


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    if not isinstance(value, list):
        raise RecordError(f"{name} is no list")
    return value


def _text(data: dict[str, Any], name: str, least: int = 0) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or not least <= len(value) <= _TEXT_LIMIT:
        raise RecordError(f"{name} is no text")
    return value


def _integer(data: dict[str, Any], name: str, least: int, default: int | None = None) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RecordError(f"{name} is no integer from {least}")
    return value


def _optional_seconds(data: dict[str, Any], name: str) -> tuple[float, ...]:
    return tuple(seconds_from(s) for s in _list(data, name)) if name in data else ()


def seconds_from(value: Any) -> float:
    """A time of a line, in seconds. RecordError if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError("a time is no number")
    if not 0 < value < 1e18:
        raise RecordError(f"a time of {str(value)[:20]} seconds")
    return float(value)


def _check(value: Any) -> Check | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RecordError("checked is no object")
    return Check(_finite(value.get("max_error")), _finite(value.get("bound")))


def _finite(value: Any) -> float:
    found = _optional(value)
    if found is None:
        raise RecordError("checked holds no numbers")
    return found


def _optional(value: Any) -> float | None:
    """A finite number, None for anything else: nothing depends on it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _took(value: Any) -> Took | None:
    if not isinstance(value, dict):
        return None
    build, check, run = (_optional(value.get(name)) or 0.0 for name in Took.__slots__)
    return Took(max(0.0, build), max(0.0, check), max(0.0, run))
