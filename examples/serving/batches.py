"""Gathers requests of one row each into calls of many.

A batch is what has come while the calls before it ran: nothing waits for company, so that a lone
request takes as long as a lone call, and under load batches grow until the calls keep up. One
compile with a symbolic number of rows serves them all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Overloaded(Exception):
    """More rows wait than the server holds: try again later."""


class Batches:
    """Calls ``function``, of rows to rows, with as many rows as wait, from ``workers`` threads.

    >>> async def answers():
    ...     async with Batches(lambda x: x * 2) as double:
    ...         return await asyncio.gather(double(np.ones(3)), double(np.zeros(3)))
    >>> asyncio.run(answers())
    [array([2., 2., 2.]), array([0., 0., 0.])]
    """

    def __init__(
        self,
        function: Callable[[Array], Array],
        *,
        most: int = 64,
        workers: int = 1,
        waiting: int = 1024,
    ) -> None:
        """``most`` rows go into a call, and ``waiting`` of them are held before one is refused."""
        self.calls = self.rows = 0
        self._function = function
        self._most = most
        self._limit = waiting
        self._waiting: deque[tuple[Array, asyncio.Future[Array]]] = deque()
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(workers, "batch")
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Batches:
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        self._pool.shutdown()

    async def __call__(self, row: Array) -> Array:
        """Returns the function's result for one row; raises Overloaded, and what it raises."""
        if len(self._waiting) >= self._limit:
            raise Overloaded
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((row, result))
        self._arrived.set()
        return await result

    def _next(self) -> list[tuple[Array, asyncio.Future[Array]]]:
        batch: list[tuple[Array, asyncio.Future[Array]]] = []
        while self._waiting and len(batch) < self._most:
            row, result = self._waiting.popleft()
            if not result.done():  # whoever asked may have hung up
                batch.append((row, result))
        return batch

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = self._next()
            if not batch:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            results = [result for _, result in batch]
            try:  # native code runs without the GIL: requests are read meanwhile
                rows = np.stack([row for row, _ in batch])
                values = await loop.run_in_executor(self._pool, self._function, rows)
            except asyncio.CancelledError:
                for result in results:
                    result.cancel()
                raise
            except Exception as error:
                for result in results:
                    if not result.done():
                        result.set_exception(error)
                continue
            self.calls += 1
            self.rows += len(batch)
            for result, value in zip(results, values, strict=True):
                if not result.done():
                    result.set_result(value)
