"""Code that was compiled for one kind of arguments, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..tracer import Request, Traced, to_array
from .call_signature import CallSignature

if TYPE_CHECKING:
    from ..driver.built import Built
    from .guards import Guard


class Run(Protocol):
    """Makes whole calls, and offers a quick way to make them; see ``calls_by_memory.py``."""

    def __call__(self, leaves: Sequence[Any], /) -> Any: ...

    leaf: Callable[[Any], Any]

    def quickly(self) -> tuple[Callable[..., Any], Callable[[list[Any]], Any] | None]: ...


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Code for one request: run on arrays, then put into the user's structure. It is right as long
    as its ``guard`` holds. It took ``seconds``, of which those of ``tracing`` came first."""

    traced: Traced
    built: Built
    reason: str
    seconds: float
    guard: Guard | None = None
    tracing: float = 0.0


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for the code of a function that has not been called."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Code for calls with one quick key; ``finish`` is None where the result is one array.

    ``direct`` takes a call's arguments as the user wrote them, and answers None for those that it
    was not made for. ``arrays`` takes the leaves, which have to be exactly what the code reads.
    Where the function changes arguments, ``run`` makes the whole call. ``direct`` looks at the
    ``guard`` itself.
    """

    direct: Callable[..., list[Array] | None]
    arrays: Callable[..., list[Array] | None]
    call: Callable[[Sequence[Array]], list[Array]]
    finish: Callable[[list[Array]], Any] | None
    run: Run | None = None
    guard: Guard | None = None

    @staticmethod
    def of(
        made: Specialisation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        signature: CallSignature,
        run: Run | None,
    ) -> Ready:
        """Returns code for calls like this."""
        guard, arrays = made.guard, _nothing
        if run is not None:
            call, finish = run.quickly()
        else:
            call = arrays = made.built.direct or _nothing
            finish = None if made.traced.returns_one_array else made.traced.result_writer()
        leaf = np.asarray if run is None else run.leaf
        direct = signature.reader(args, kwargs, call, leaf) or _nothing
        if guard is not None:
            direct = guard.before(direct, bool(kwargs))
        return Ready(direct, arrays, made.built.call, finish, run, guard)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        if self.run is not None:
            return self.run(leaves)
        arrays = [v if type(v) is np.ndarray else np.asarray(v) for v in leaves]
        results = self.arrays(*arrays)
        if results is None:
            results = self.call([to_array(a) for a in arrays])
        return results[0] if self.finish is None else self.finish(results)


NOTHING = Ready(_nothing, _nothing, list, None)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Compiled ``signatures`` in order, each with the reason why it was compiled.

    >>> f = lw.compile(lambda x: x + 1)
    >>> _ = f(np.ones(2)), f(np.ones(2)), f(np.ones(3))
    >>> f.cache_info().hits, f.cache_info().misses
    (1, 2)
    """

    hits: int
    misses: int
    currsize: int
    signatures: tuple[str, ...]
    reasons: tuple[str, ...]

    @staticmethod
    def of(hits: int, misses: int, reasons: Mapping[Request, str]) -> CacheInfo:
        signatures = tuple(map(str, reasons))
        return CacheInfo(hits, misses, len(reasons), signatures, tuple(reasons.values()))

    def __str__(self) -> str:
        lines = [f"{self.currsize} compiled, {self.hits} hits, {self.misses} misses"]
        lines += [f"  {s}   ({r})" for s, r in zip(self.signatures, self.reasons)]
        return "\n".join(lines)

    __repr__ = __str__
