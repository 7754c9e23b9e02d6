"""The server of examples/serving: what clients get, and what becomes of requests that are bad."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from typing import Any

import numpy as np
import pytest

from examples.serving.app import ARRAY, JSON, App, Message
from examples.serving.batches import Array, Batches, Overloaded


def _doubled(x: Array) -> Array:
    return 2 * x


async def _request(app: App, body: bytes, kind: bytes = JSON, path: str = "/predict") -> Any:
    """Returns status and body of the answer to a POST."""
    sent: list[Message] = []
    parts = [
        {"type": "http.request", "body": body[:5], "more_body": True},
        {"type": "http.request", "body": body[5:], "more_body": False},
    ]

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"content-type", kind)],
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


def test_under_load_all_answers_are_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    from examples.serving.__main__ import main

    assert main(["--load", "1,6", "--seconds", "0.2", "--workers", "2", "--threads", "1"]) == 0
    assert "6 clients" in capsys.readouterr().out


def test_what_waits_while_a_call_runs_is_the_next_batch() -> None:
    sizes: list[int] = []
    first = threading.Event()

    def call(x: Array) -> Array:
        sizes.append(len(x))
        if len(sizes) == 1:
            assert first.wait(10)
        return 2 * x

    async def run() -> list[Array]:
        async with Batches(call, most=4) as batches:
            tasks = [asyncio.create_task(batches(np.full(2, i))) for i in range(8)]
            await asyncio.sleep(0.05)
            tasks[2].cancel()  # a client that hangs up leaves the others alone
            first.set()
            return await asyncio.gather(*tasks[:2], *tasks[3:])

    answers = asyncio.run(run())
    assert [int(answer[0]) for answer in answers] == [0, 2, 6, 8, 10, 12, 14]
    assert sizes == [4, 4], "the first four were there before a call ran"


def test_more_than_may_wait_is_refused_and_what_waits_at_the_end_is_cancelled() -> None:
    held = threading.Event()

    def call(x: Array) -> Array:
        assert held.wait(10)
        return x

    async def run() -> list[Any]:
        async with Batches(call, most=1, waiting=2) as batches:
            tasks = [asyncio.create_task(batches(np.zeros(1)))]
            await asyncio.sleep(0.05)
            tasks += [asyncio.create_task(batches(np.zeros(1))) for _ in range(3)]
            await asyncio.sleep(0.05)
            held.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(run())
    kinds = [type(result) for result in results]
    assert kinds == [
        asyncio.CancelledError,
        asyncio.CancelledError,
        asyncio.CancelledError,
        Overloaded,
    ]


def test_an_error_of_the_model_reaches_those_who_asked_and_the_next_call_runs() -> None:
    def call(x: Array) -> Array:
        if np.isnan(x).any():
            raise ValueError("nan")
        return x

    async def run() -> None:
        async with Batches(call) as batches:
            with pytest.raises(ValueError, match="nan"):
                await batches(np.full(2, np.nan))
            assert (await batches(np.ones(2)) == 1).all()

    asyncio.run(run())


def _saved(value: Array, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value, **options)
    return file.getvalue()


def test_json_and_arrays_are_answered_alike_and_what_is_no_row_is_told() -> None:
    bad = [
        (b"[1, 2", JSON),
        (b'{"a": 1}', JSON),
        (b"[[1], [1, 2]]", JSON),
        (b"[1, 2, 3, 4]", JSON),
        (b"[" * 100_000, JSON),
        (b"null", JSON),
        (b'["1", "2", "3"]', JSON),
        (b"[1, 2, " + b"9" * 400 + b"]", JSON),
        (b'"' + b"x" * 100_000 + b'"', JSON),
        (b"[1, 2, 3]", b"text/plain"),
        (b"", ARRAY),
        (_saved(np.zeros(4)), ARRAY),
        (_saved(np.array(["a", "b", "c"])), ARRAY),
        (_saved(np.array([1, None, 3], object), allow_pickle=True), ARRAY),
        (_saved(np.zeros(3, "M8[s]")), ARRAY),
        (_saved(np.zeros(3))[:-9], ARRAY),
    ]

    async def run() -> None:
        batches = Batches(_doubled)
        app = App(batches, (3,))
        async with batches:
            status, body = await _request(app, b"[1, 2, 3]")
            assert (status, json.loads(body)) == (200, [2, 4, 6])
            status, body = await _request(app, _saved(np.arange(3)), ARRAY)
            assert status == 200
            np.testing.assert_array_equal(np.load(io.BytesIO(body)), np.float32([0, 2, 4]))
            for body, kind in bad:
                status, said = await _request(app, body, kind)
                assert (status, bool(json.loads(said)["error"])) == (400, True), body[:40]
            assert (await _request(app, b"[1, 2, 3]", path="/other"))[0] == 404
        assert (batches.calls, batches.rows) == (2, 2), "bad rows are not run"

    asyncio.run(run())
