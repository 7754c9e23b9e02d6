"""An LSTM layer over 64 steps, written with ``lw.scan``, beside those of ONNX Runtime and PyTorch.

    python -m bench.loops.lstm          width 256, batches of 1 and 32, untuned, one thread

Every peer is a process of its own, stopped while another runs; all have the same weights, known
before the first call, and results are compared with float64 before anything is timed. Bar: at
least as fast as the faster of the two. The exit status is 1 if it is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..answers import serve
from ..lock import MachineLock
from ..process import Worker

__all__ = ["main"]

STEPS, WIDTH, BATCHES = 64, 256, (1, 32)
PEERS = ("ours", "torch", "onnxruntime")
TOLERANCE = 1e-5

Weights = tuple[Any, Any, Any]


def weights_and_input(batch: int) -> tuple[Weights, Any]:
    """Returns weights of the input and of the state, float32[256, 1024] in the order input, forget,
    cell, output gate; the bias, float32[1024]; and the input, float32[64, batch, 256]."""
    rng = np.random.default_rng(batch)
    scale = np.float32(WIDTH**-0.5)
    shapes = ((WIDTH, 4 * WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,))
    w, u, b = (scale * rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
    return (w, u, b), rng.standard_normal((STEPS, batch, WIDTH), np.float32)


def lstm(x: Any, weights: Weights, scan: Callable[..., Any]) -> Any:
    """Returns the states after each step, of the shape of ``x``."""
    w, u, b = weights

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    def cell(carry: Any, row: Any) -> Any:
        h, c = carry
        gates = row @ w + h @ u + b
        i, f, g, o = (gates[:, k * WIDTH : (k + 1) * WIDTH] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h

    start = np.zeros(x.shape[1:], x.dtype)
    return scan(cell, (start, start), x)[1]


def _ours(x: Any, weights: Weights) -> Callable[[], Any]:
    import loopwright as lw

    compiled = lw.compile(lambda x: lstm(x, weights, lw.scan), threads=1)
    return lambda: compiled(x)


def _torch(x: Any, weights: Weights) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    layer = torch.nn.LSTM(WIDTH, WIDTH).eval()
    given = torch.from_numpy(x)
    with torch.no_grad():
        for name, value in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0"), weights):
            getattr(layer, name).copy_(torch.from_numpy(value.T))
        layer.bias_hh_l0.zero_()

    def call() -> Any:
        with torch.inference_mode():
            return layer(given)[0].numpy()

    return call


def _onnxruntime(x: Any, weights: Weights) -> Callable[[], Any]:
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    def in_its_order(value: Any) -> Any:
        i, f, g, o = np.split(value.T, 4)
        return np.ascontiguousarray(np.concatenate([i, o, f, g]))[None]

    w, u, b = map(in_its_order, weights)
    constants = {"w": w, "u": u, "b": np.concatenate([b, 0 * b], axis=1)}
    node = helper.make_node("LSTM", ["x", *constants], ["y"], hidden_size=WIDTH)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "lstm",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    return lambda: session.run(None, {"x": x})[0][:, 0]


_MAKE = {"ours": _ours, "torch": _torch, "onnxruntime": _onnxruntime}


def _scan(f: Callable[..., Any], carry: Any, xs: Any) -> Any:
    rows: list[Any] = []
    for x in xs:
        carry, y = f(carry, x)
        rows.append(y)
    return carry, np.stack(rows)


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a peer's layer ready; ValueError if its result is not that of float64."""
    weights, x = weights_and_input(command["batch"])
    wide = lstm(x.astype(np.float64), tuple(v.astype(np.float64) for v in weights), _scan)  # type: ignore[arg-type]
    call = _MAKE[peer](x, weights)
    off = float(np.abs(call() - wide).max())
    if off > TOLERANCE:
        raise ValueError(f"{off:.2g} off")
    return call, {"off": off}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.loops.lstm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds each peer gets (9)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a round (0.2)")
    args = parser.parse_args(argv)
    met = True
    print("| batch | " + " | ".join(PEERS) + " | faster of the two / ours |\n" + "|---" * 5 + "|")
    with ExitStack() as stack:
        command = [sys.executable, "-m", f"{__package__}.lstm", "--peer"]
        workers = [Worker(p, 1, command, {"LOOPWRIGHT_LOG": os.devnull}) for p in PEERS]
        for worker in workers:
            stack.callback(worker.close)
        stack.enter_context(MachineLock())
        for batch in BATCHES:
            for worker in workers:
                answer = worker.ask(120.0, do="prepare", batch=batch)
                if "failed" in answer:
                    print(f"{worker.library}: {answer['failed']}", file=sys.stderr)
                    return 2
            times: dict[str, list[float]] = {p: [] for p in PEERS}
            for _ in range(args.rounds):
                for worker in workers:
                    answer = worker.ask(60.0, do="round", seconds=args.seconds)
                    times[worker.library].append(answer["seconds"])
            seconds = [statistics.median(times[p]) for p in PEERS]
            ratio = min(seconds[1:]) / seconds[0]
            met = met and ratio >= 1
            cells = " | ".join(f"{1e3 * s:.3g}" for s in seconds)
            print(f"| {batch} | {cells} | {ratio:.2f} |")
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        serve(sys.argv[2], prepare)
    else:
        sys.exit(main())
