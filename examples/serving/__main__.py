"""Serves a model over HTTP, requests gathered into batches, or measures that under load.

    python -m examples.serving                                  a random network on port 8000
    python -m examples.serving model.onnx --shape 3,224,224     an ONNX model of one input, float32
    python -m examples.serving --load 1,8,64 --seconds 3        starts a server, and clients for it

    curl -s localhost:8000/predict -d "[$(yes 0.5, | head -783 | tr -d '\\n')0.5]"

``--workers 2 --threads 1`` runs two batches at once, each on one core; ``--workers 1`` gives each
batch all cores. ``--most 1`` is one call per request. It needs ``pip install loopwright[serving]``,
and ``[onnx]`` for ONNX models.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import loopwright as lw
import numpy as np
import uvicorn
from loopwright.doors.onnx_model import input_names

from .app import App
from .batches import Array, Batches
from .load import load

WIDTHS = (784, 2048, 2048, 10)


def network(threads: int | None) -> Callable[[Array], Array]:
    """Returns a compiled network of random weights, for any number of rows."""
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal((m, n)) * np.sqrt(2 / m)).astype(np.float32)
        for m, n in itertools.pairwise(WIDTHS)
    ]

    @lw.compile(dynamic={"x": {0: lw.Dim("n", min=1, max=1024)}}, threads=threads)
    def scores(x):
        for w in weights[:-1]:
            x = lw.nn.relu(x @ w)
        return lw.nn.softmax(x @ weights[-1])

    return scores


def onnx_model(path: str, shape: tuple[int, ...], threads: int | None) -> Callable[..., Any]:
    """Returns an ONNX model of one input and one output, for any number of rows."""
    (name,) = input_names(path)
    return lw.from_onnx(path, shapes={name: ("n", *shape)}, threads=threads)


class InThread:
    """A server in a thread of this process; ``port`` is the one that it got."""

    def __init__(self, app: App) -> None:
        config = uvicorn.Config(app, port=0, log_level="warning")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> InThread:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def numbers(text: str) -> tuple[int, ...]:
    """Returns the numbers of a list such as ``3,224,224``."""
    return tuple(int(part) for part in text.split(","))


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until Ctrl-C; with ``--load`` the status is 1 if an answer is not the model's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", help="an ONNX file")
    parser.add_argument("--shape", type=numbers, default=WIDTHS[:1], help="of one row")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1, help="batches that run at once")
    parser.add_argument("--threads", type=int, help="of each batch")
    parser.add_argument("--most", type=int, default=64, help="rows of a batch")
    parser.add_argument("--load", type=numbers, metavar="N,N", help="clients that send at once")
    parser.add_argument("--seconds", type=float, default=3, help="for each number of clients")
    args = parser.parse_args(argv)
    shape: tuple[int, ...] = args.shape
    model = onnx_model(args.model, shape, args.threads) if args.model else network(args.threads)
    model(np.zeros((1, *shape), np.float32))  # compiles; the first request does not wait for it
    batches = Batches(model, most=args.most, workers=args.workers)
    app = App(batches, shape)
    if args.load is None:
        uvicorn.run(app, port=args.port)
        return 0
    rng = np.random.default_rng(1)
    with InThread(app) as server:
        for clients in args.load:
            rows = rng.random((clients, *shape), np.float32)
            calls, served = batches.calls, batches.rows
            seen, answers = asyncio.run(load(server.port, rows, args.seconds))
            mean = (batches.rows - served) / (batches.calls - calls)
            print(f"{seen}   {mean:5.1f} rows a call")
            if not np.allclose(answers, model(rows), rtol=1e-4, atol=1e-6):
                print("answers differ from the model's")
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
