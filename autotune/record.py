"""{"v": 1,
     "workload": {"hash": "3f9a...", "text": "matmul float32 i=1000 j=384 k=512", "prim": "..."},
     "target": {"isa": "x86-64-v4", "cpu": "...", "cores": 2, "threads": 1,
                "l1": 49152, "l2": 1048576, "l3": 33554432},
     "schedule": [["split", "i", [125, 1, 8]], ...], "sketch": "contraction.register_tile/1",
     "seconds": [0.00147, 0.00146], "error": null, "detail": "",
     "checked": {"max_error": 1.1e-6, "bound": 3.1e-5},
     "seed": 7, "time": "2026-11-20T10:00:00Z", "loopwright": "0.1.0"}

``"cache"`` says where the calls found their operands: in the caches ("warm", also without it), in
memory ("cold"), or where a program leaves them ("place", with ``"between"``: the bytes it touches
between two uses of an operand, by name). A record of a race has ``"raced": true`` as well, and may
have ``"other_cache_seconds"``, some samples in another state: "warm" ones if it is not warm itself,
else "cold" ones, which are made no more. One made by a search has the search's id (``"run"``), its
time (``"at"`` seconds after the start), the cost model's score before it was measured
(``"predicted"``, higher is faster), and the seconds that workers spent (``"took": {"build": 0.01,
"check": 0.002, "run": 0.004}``). ``error`` is a key of ``ERRORS`` or null. Fields a reader does not
know are ignored; a greater ``v`` is a line of a later version. Records are data: they are
validated, never executed. Other lines are decisions (``decision``) and notes (``note``).
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..codegen.target import Target
from ..ir.dataclass import dataclass
from ..ir.schedule.schedule import LONGEST_SCHEDULE
from .record_line import RecordError, check_version, data_of

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
_POINT = re.compile(r"[0-9]{1,18}(,[0-9]{1,18}){0,15}", re.ASCII)
_LOOSE_INTEGER = re.compile(r"(?<![\w.])[0-9]+(?![\w.])")
_FRACTION = re.compile(r"(?<![\w.])[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?(?![\w.])")
_REDUCED = re.compile(r": ([0-9]+)[,)]")  # lengths of the axes of a reduction
_MOST_DIGITS = 18  # of a size
_TEXT_LIMIT = 100_000
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Workload:
    """A computation. ``text`` is for people, ``prim`` is the canonical text that was hashed.

    Two workloads of the same ``kind`` differ in sizes alone.

    A kernel with symbolic sizes is one workload at each point ``at`` which it is measured (a value
    for each size, in their order): ``range`` is its canonical text, ``prim`` that of what it
    computes there, and its hash is that of ``range`` followed by the point, ``3f9a...@64,7``.
    """

    hash: str
    text: str = ""
    prim: str = ""
    range: str = ""
    at: tuple[int, ...] = ()

    @property
    def kernel(self) -> str:
        """The hash of the kernel: that of the whole range, if it is one."""
        return self.hash.partition("@")[0]

    @property
    def kind(self) -> str:
        """A hash of the canonical text without its integers; "" without such a text."""
        return _kind_and_sizes(self.prim)[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The integers of the canonical text, in order."""
        return _kind_and_sizes(self.prim)[1]

    def to_data(self) -> dict[str, Any]:
        """Returns the JSON of a line's ``workload``."""
        prim = {"prim": self.prim} if self.prim else {}
        point = {"range": self.range, "at": self.at} if self.range else {}
        return {"hash": self.hash, "text": self.text, **prim, **point}

    def distance(self, other: Workload) -> float:
        """Returns the sum of |log2| of the ratios of sizes; inf between different kinds.

        The text repeats the size of a loop in every operand and stage; equal changes count once.

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
    numbers = _LOOSE_INTEGER.findall(prim)
    if any(len(number) > _MOST_DIGITS for number in numbers):
        return "", ()
    lengths = frozenset(map(float, _REDUCED.findall(prim)))

    def general(fraction: re.Match[str]) -> str:
        value = float(fraction[0])  # a mean divides by the size of its axis
        return "~" if value in lengths or (value and 1 / value in lengths) else fraction[0]

    shape = _LOOSE_INTEGER.sub("#", _FRACTION.sub(general, prim))
    return hashlib.sha256(shape.encode()).hexdigest()[:16], tuple(map(int, numbers))


@dataclass(frozen=True, slots=True)
class TargetKey:
    """The machine a record was measured on, as far as it matters for speed. Sizes in bytes.

    Keys are equal if the same code is as fast on the same number of threads. Neither the number of
    cores a process may use besides (under ``taskset``, say) nor the size of the LLC that a virtual
    machine reports changes that.
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
        """Returns the JSON of a line's ``target``."""
        return {name: getattr(self, name) for name in TargetKey.__slots__}

    def machine(self, features: Iterable[str] = ()) -> Target:
        """Returns the target that a key describes; a missing size is that of ``Target()``.

        Raises LoopwrightValueError for an ISA level that is not known here.
        """
        target = Target(self.isa, self.cpu, self.cores, features=frozenset(features))
        sizes = {n: getattr(self, n) or getattr(target, n) for n in ("l1", "l2", "l3")}
        return replace(target, **sizes)


def target_key(target: Target, threads: int | None = None) -> TargetKey:
    """Returns the key of a target when ``threads`` threads run the kernel (all cores by
    default)."""
    sizes = target.l1, target.l2, target.l3
    return TargetKey(target.isa, target.cpu, target.cores, threads or target.cores, *sizes)


@dataclass(frozen=True, slots=True)
class Check:
    """The greatest error and the allowed one, both relative to the size of the result."""

    max_error: float
    bound: float


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds that workers spent on a candidate: compiling, checking (with loading), and sampling
    (with repeated measurements)."""

    build: float = 0.0
    check: float = 0.0
    run: float = 0.0


@dataclass(frozen=True)
class MeasureRecord:
    """One measured run. ``seconds`` holds the time per call of every sample, rounded to six digits
    as in the file, so that decisions can be repeated from it.

    ``cache`` says where calls found their operands: in the caches ("warm"), in memory ("cold"), or
    where a program leaves them ("place"), which touches so many bytes ``between`` two uses of an
    operand. ``raced`` records come from a race, with some samples in another state: "warm" ones,
    of a warm record "cold" ones. ``run``, ``at``, ``predicted`` and ``took`` are
    set if a search made the record.
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
    between: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", rounded(self.seconds))

    @property
    def ok(self) -> bool:
        """True if it ran and passed the check."""
        return self.error is None and bool(self.seconds)

    @functools.cached_property
    def cost(self) -> float:
        """Seconds per call; inf if it failed."""
        return robust_seconds(self.seconds) if self.ok else math.inf

    def seconds_when(self, cache: str) -> tuple[float, ...]:
        """Returns the samples in a state of the caches; empty if there are none."""
        if cache == self.cache:
            return self.seconds
        other = "cold" if self.cache == "warm" else "warm"
        return self.other_cache_seconds if cache == other else ()

    @functools.cached_property
    def schedule_key(self) -> str:
        """The schedule as text: equal for equal schedules."""
        return schedule_key(self.schedule)

    def to_json(self) -> str:
        """Returns one line without its line end."""
        check = self.checked
        more: dict[str, Any] = {"raced": True} if self.raced else {}
        if self.raced or self.cache != "warm":
            more["cache"] = self.cache
        if self.between:
            more["between"] = self.between
        if self.run:
            more["run"] = self.run
        if self.at is not None:
            more["at"] = self.at
        if self.predicted is not None:
            more["predicted"] = float(f"{self.predicted:.5g}")
        if self.took is not None:
            more["took"] = {n: float(f"{getattr(self.took, n):.3g}") for n in Took.__slots__}
        if self.other_cache_seconds:
            more["other_cache_seconds"] = rounded(self.other_cache_seconds)
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
        """Reads one line. Raises RecordError, or FutureRecordError for a later version's line."""
        return record_from_data(data_of(line))


def schedule_key(schedule: Any) -> str:
    """Returns the canonical text of a schedule's JSON.

    >>> schedule_key((("split", "i", (2, 4)),))
    '[["split","i",[2,4]]]'
    """
    return _CANONICAL.encode(schedule)


def rounded(seconds: Iterable[float]) -> tuple[float, ...]:
    """Returns times as lines hold them, with six digits."""
    return tuple(float(f"{s:.6g}") for s in seconds)


def robust_seconds(seconds: Sequence[float]) -> float:
    """Returns the median of the faster half of the samples: noise only ever adds time.

    >>> robust_seconds((3.0, 1.0, 9.0, 1.2))
    1.1
    """
    faster = sorted(seconds)[: (len(seconds) + 1) // 2]
    middle = len(faster) // 2
    return faster[middle] if len(faster) % 2 else (faster[middle - 1] + faster[middle]) / 2


def timestamp() -> str:
    """Returns the time now, in UTC, to the second."""
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache
def own_version() -> str:
    """Returns the version of the package; "" where it is not installed."""
    try:
        return version("loopwright")
    except PackageNotFoundError:
        return ""


def record_from_data(data: dict[str, Any]) -> MeasureRecord:
    """Returns the record in parsed JSON; errors as of ``MeasureRecord.from_json``."""
    if "v" not in data or "workload" not in data:
        raise RecordError("not a tuning record")
    check_version(data, SCHEMA_VERSION)
    error = data.get("error")
    if error is not None and not (isinstance(error, str) and _WORD.fullmatch(error)):
        raise RecordError("error is not a word")
    seconds = seconds_from(data, "seconds")
    if error is None and not seconds:
        raise RecordError("neither seconds nor an error")
    schedule = tuple(list_from(data, "schedule"))
    if len(schedule) > LONGEST_SCHEDULE:
        raise RecordError(f"{len(schedule)} steps are more than {LONGEST_SCHEDULE}", "oversized")
    return MeasureRecord(
        workload=workload_from(data),
        target=target_from(data),
        schedule=schedule,
        sketch=text_from(data, "sketch"),
        seconds=seconds,
        error=error,
        detail=text_from(data, "detail"),
        checked=_check(data.get("checked")),
        seed=integer_from(data, "seed", least=0, default=0),
        time=text_from(data, "time"),
        version=text_from(data, "loopwright"),
        raced=data.get("raced") is True,
        run=text_from(data, "run"),
        at=_optional(data.get("at")),
        predicted=_optional(data.get("predicted")),
        took=_took(data.get("took")),
        cache=data["cache"] if data.get("cache") in ("cold", "place") else "warm",
        other_cache_seconds=(
            seconds_from(data, "other_cache_seconds") if "other_cache_seconds" in data else ()
        ),
        between=_between(data.get("between")),
    )


def workload_from(data: dict[str, Any]) -> Workload:
    """Returns the ``workload`` of a line. Raises RecordError if it has none."""
    workload = _object(data, "workload")
    text, prim, sizes = (text_from(workload, name) for name in ("text", "prim", "range"))
    made = Workload(text_from(workload, "hash", least=1), text, prim, sizes)
    if "range" not in workload and "at" not in workload:
        return made
    values = list_from(workload, "at")
    if not values or not all(type(v) is int and 0 <= v < 2**63 for v in values):
        raise RecordError("at holds no sizes")
    if point_in(made.hash) != tuple(values) or not made.range:
        raise RecordError("at is not the point of the hash")
    return replace(made, at=tuple(values))


def hash_at(range_hash: str, point: Sequence[int]) -> str:
    """Returns the hash of a range's workload at a point.

    >>> hash_at("3f9a", (64, 7)), point_in("3f9a@64,7")
    ('3f9a@64,7', (64, 7))
    """
    return f"{range_hash}@{','.join(map(str, point))}"


def point_in(hash_at_point: str) -> tuple[int, ...]:
    """Returns the point in a workload's hash; () for one whose sizes are all known."""
    _, _, values = hash_at_point.partition("@")
    return tuple(map(int, values.split(","))) if _POINT.fullmatch(values) else ()


def target_from(data: dict[str, Any]) -> TargetKey:
    """Returns the ``target`` of a line. Raises RecordError if it has none."""
    target = _object(data, "target")
    return TargetKey(
        text_from(target, "isa", least=1),
        text_from(target, "cpu"),
        *(integer_from(target, name, least=1, default=1) for name in ("cores", "threads")),
        *(integer_from(target, name, least=0, default=0) for name in ("l1", "l2", "l3")),
    )


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict):
        raise RecordError(f"{name} is not an object")
    return value


def list_from(data: dict[str, Any], name: str) -> list[Any]:
    """Returns a list of a line. Raises RecordError if it is missing."""
    value = data.get(name)
    if not isinstance(value, list):
        raise RecordError(f"{name} is not a list")
    return value


def text_from(data: dict[str, Any], name: str, least: int = 0) -> str:
    """Returns a text of a line, "" if it is missing. Raises RecordError for anything else."""
    value = data.get(name, "")
    if not isinstance(value, str) or not least <= len(value) <= _TEXT_LIMIT:
        raise RecordError(f"{name} is not a text")
    return value


def integer_from(data: dict[str, Any], name: str, least: int, default: int | None = None) -> int:
    """Returns an integer of a line. Raises RecordError if it is missing or too small."""
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RecordError(f"{name} is not an integer from {least}")
    return value


def seconds_from(data: dict[str, Any], name: str) -> tuple[float, ...]:
    """Returns a list of times of a line, in seconds. Raises RecordError for anything else."""
    values = list_from(data, name)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RecordError("a time is not a number")
        if not 0 < value < 1e18:
            raise RecordError(f"a time of {str(value)[:20]} seconds")
    return tuple(map(float, values))


def _check(value: Any) -> Check | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RecordError("checked is not an object")
    max_error, bound = _optional(value.get("max_error")), _optional(value.get("bound"))
    if max_error is None or bound is None:
        raise RecordError("checked holds no numbers")
    return Check(max_error, bound)


def _optional(value: Any) -> float | None:
    """Returns a finite number, None for anything else: nothing depends on it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _between(value: Any) -> dict[str, int]:
    """Returns the bytes by name; nothing but what a program needs to be told apart depends on
    them."""
    if not isinstance(value, dict):
        return {}
    return {n: b for n, b in value.items() if type(b) is int and 0 <= b < 2**63}


def _took(value: Any) -> Took | None:
    if not isinstance(value, dict):
        return None
    build, check, run = (_optional(value.get(name)) or 0.0 for name in Took.__slots__)
    return Took(max(0.0, build), max(0.0, check), max(0.0, run))
