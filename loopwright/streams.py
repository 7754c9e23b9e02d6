"""``f.map`` and ``f.submit``: calls that run at the same time, a stream of them a group of cores.

Each stream is a thread that makes one call after the other, on its share of the function's threads
and with an arena of its own; native code runs without the GIL. That is the most answers per second:
a call on one core waits for no other core.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .codegen.target import Target
from .config import Config
from .ir.errors import LoopwrightValueError

if TYPE_CHECKING:
    from .face.compiled_function import CompiledFunction

_AHEAD = 2
"""Calls that wait for each stream: one that is done finds its next one there."""


class Streams:
    """Streams of calls of one function; as many calls at a time as there are ``streams``.

    By default a stream for each thread that the function uses. ``close()`` ends them; so does the
    end of the program.
    """

    def __init__(self, function: CompiledFunction, streams: int | None = None) -> None:
        threads = function.threads or Config.read().threads or Target.host().cores
        streams = threads if streams is None else streams
        if not 1 <= streams <= threads:
            raise LoopwrightValueError(
                f"streams={streams}: they share the {threads} threads of the function, at least "
                "one each",
                hint="with_threads(n) first, or LOOPWRIGHT_THREADS",
            )
        self.count = streams
        self._call: Callable[..., Any] = function.with_threads(threads // streams)
        self._pool = ThreadPoolExecutor(streams, "loopwright-stream")

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Returns the future result of a call."""
        return self._pool.submit(self._call, *args, **kwargs)

    def map(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yields the results of calls in the order of their arguments; see ``f.map``."""
        waiting: deque[Future[Any]] = deque()
        given = iter(batches)
        try:
            for batch in given:
                args = batch if isinstance(batch, tuple) else (batch,)
                if isinstance(batch, dict):
                    waiting.append(self.submit(**batch))
                else:
                    waiting.append(self.submit(*args))
                if len(waiting) > _AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Lets the calls that run end, and drops those that wait."""
        self._pool.shutdown(cancel_futures=True)


_made_lock = threading.Lock()
_KEPT = "_streams"


def streams_of(function: CompiledFunction, count: int | None) -> Streams:
    """Returns the streams of a function, made once for each number of them."""
    with _made_lock:
        kept: dict[int | None, Streams] = vars(function).setdefault(_KEPT, {})
        if count not in kept:
            kept[count] = Streams(function, count)
        return kept[count]
