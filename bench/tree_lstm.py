"""Tree-LSTMs beside PyTorch: ``python -m bench.tree_lstm --state 150``.

Random binary trees of 5 to 60 leaves, one call for each: the state of the root, then the gradient
of its squares with respect to the weights. PyTorch runs the same cell in two ways: value by value,
as a Python function that calls itself, and all values of one height together, which a plan made
with the trees says (its time is not counted). Each way has a process of its own and one thread; the
processes take turns. Prints microseconds a tree, the medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np

from .lock import MachineLock

LEAST, MOST = 5, 60
WAYS = ("loopwright", "loopwright, by recursion", "torch", "torch by height")


def _weights(state: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"x": (state, 3 * state), "lr": (2 * state, 5 * state)}
    params = {n: rng.standard_normal(s, np.float32) * np.float32(0.05) for n, s in shapes.items()}
    return params | {"b": np.zeros(5 * state, np.float32)}


def _trees(state: int, count: int, leaf: Any, node: Any) -> list[Any]:
    rng = np.random.default_rng(1)
    trees: list[Any] = []
    for leaves in rng.integers(LEAST, MOST + 1, count):
        parts = [leaf(rng.standard_normal(state, np.float32)) for _ in range(leaves)]
        while len(parts) > 1:
            at = int(rng.integers(len(parts) - 1))
            parts[at : at + 2] = [node(parts[at], parts[at + 1])]
        trees.append(parts[0])
    return trees


def _ours(state: int, count: int, folds: bool) -> tuple[Any, Any, list[Any]]:
    import loopwright as lw

    @lw.data
    class Tree: ...

    class Leaf(Tree):
        x: np.ndarray

    class Node(Tree):
        left: Tree
        right: Tree

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def leaf(x: Any, params: Any) -> Any:
        g = x @ params["x"]
        c = sigmoid(g[:state]) * np.tanh(g[state : 2 * state])
        return sigmoid(g[2 * state :]) * np.tanh(c), c

    def node(left: Any, right: Any, params: Any) -> Any:
        (h, c), (k, d) = left, right
        g = np.concatenate([h, k]) @ params["lr"] + params["b"]
        i, f, e, o = sigmoid(g[: 4 * state]).reshape(4, state)
        c = i * np.tanh(g[4 * state :]) + f * c + e * d
        return o * np.tanh(c), c

    def folded(params: Any, tree: Any) -> Any:
        cases = {Leaf: lambda x: leaf(x, params), Node: lambda a, b: node(a, b, params)}
        return lw.fold(tree, cases)

    def recursive(params: Any, tree: Any) -> Any:
        match tree:
            case Leaf(x):
                return leaf(x, params)
            case Node(one, other):
                return node(recursive(params, one), recursive(params, other), params)

    encode = folded if folds else recursive
    gradient = lw.grad(lambda params, tree: (encode(params, tree)[0] ** 2).sum())
    params = _weights(state)
    run, train = lw.compile(encode), lw.compile(gradient)
    trees = _trees(state, count, Leaf, Node)
    return (lambda t: run(params, t)[0]), (lambda t: train(params, t)["lr"]), trees


def _torch(state: int, count: int, by_height: bool) -> tuple[Any, Any, list[Any]]:
    import torch

    torch.set_num_threads(1)
    params = {n: torch.tensor(w, requires_grad=True) for n, w in _weights(state).items()}
    trees = _trees(state, count, torch.tensor, lambda one, other: (one, other))

    def leaf(x: Any) -> Any:
        i, u, o = (x @ params["x"]).chunk(3, -1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def node(h: Any, k: Any, c: Any, d: Any) -> Any:
        g = torch.cat([h, k], -1) @ params["lr"] + params["b"]
        i, f, e, o, u = g.chunk(5, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * c + torch.sigmoid(e) * d
        return torch.sigmoid(o) * torch.tanh(c), c

    def recursive(tree: Any) -> Any:
        if isinstance(tree, torch.Tensor):
            return leaf(tree)
        (h, c), (k, d) = map(recursive, tree)
        return node(h, k, c, d)

    def planned(tree: Any) -> Any:
        leaves: list[Any] = []
        levels: list[list[Any]] = []

        def walk(t: Any) -> tuple[int, int]:
            if isinstance(t, torch.Tensor):
                leaves.append(t)
                return 0, len(leaves) - 1
            one, other = map(walk, t)
            height = 1 + max(one[0], other[0])
            levels.extend([[]] * (height - len(levels)))
            levels[height - 1] = [*levels[height - 1], (one, other)]
            return height, len(levels[height - 1]) - 1

        walk(tree)
        firsts = np.cumsum([0, len(leaves), *map(len, levels)])
        sides = [[[firsts[p[s][0]] + p[s][1] for p in level] for s in (0, 1)] for level in levels]
        return torch.stack(leaves), [tuple(map(torch.tensor, side)) for side in sides]

    def together(plan: Any) -> Any:
        h, c = leaf(plan[0])
        for one, other in plan[1]:
            more, cells = node(h[one], h[other], c[one], c[other])
            h, c = torch.cat([h, more]), torch.cat([c, cells])
        return h[-1], c[-1]

    encode = together if by_height else recursive

    def run(tree: Any) -> Any:
        with torch.no_grad():
            return encode(tree)[0].numpy()

    def train(tree: Any) -> Any:
        for weight in params.values():
            weight.grad = None
        (encode(tree)[0] ** 2).sum().backward()
        assert params["lr"].grad is not None
        return params["lr"].grad.numpy()

    return run, train, [planned(tree) for tree in trees] if by_height else trees


def _worker(way: str, state: int, count: int) -> None:
    """Answers each line by the microseconds of a tree: forward, and with the gradient."""
    of = _ours if way.startswith("loopwright") else _torch
    run, train, trees = of(state, count, way in ("loopwright", "torch by height"))
    sums = [float(np.abs(f(t)).sum()) for f in (run, train) for t in trees[:5]]
    print(json.dumps(sums), flush=True)
    for _ in sys.stdin:
        times: list[float] = []
        for function in (run, train):
            begun = time.perf_counter()
            for tree in trees:
                function(tree)
            times.append((time.perf_counter() - begun) / len(trees) * 1e6)
        print(json.dumps(times), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=int, default=150)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        _worker(given.way, given.state, given.trees)
        return 0
    options = [f"--state={given.state}", f"--trees={given.trees}"]
    command = [sys.executable, "-m", "bench.tree_lstm", *options]
    environment = {"LOOPWRIGHT_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with MachineLock():
        workers = {way: _started([*command, f"--way={way}"], environment) for way in WAYS}
        sums = {way: _answer(worker) for way, worker in workers.items()}
        for way in WAYS:
            np.testing.assert_allclose(sums[way], sums["torch"], rtol=1e-3, err_msg=way)
        times: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for _ in range(given.rounds):
            for way, worker in workers.items():
                assert worker.stdin is not None
                worker.stdin.write("\n")
                worker.stdin.flush()
                times[way].append(_answer(worker))
    medians = {way: [median(t) for t in zip(*times[way], strict=True)] for way in WAYS}
    print(f"state {given.state}, {given.trees} trees of {LEAST} to {MOST} leaves, us a tree")
    print(f"{'':26}{'forward':>10}{'':8}{'gradient':>10}")
    for way, values in medians.items():
        pairs = zip(values, medians["torch"], strict=True)
        print(f"{way:26}" + "".join(f"{v:10.0f} {t / v:5.2f}x " for v, t in pairs))
    for worker in workers.values():
        worker.kill()
    return 0


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    whole = {**os.environ, **environment}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=whole)


def _answer(worker: subprocess.Popen[str]) -> list[float]:
    assert worker.stdout is not None
    return json.loads(worker.stdout.readline())


if __name__ == "__main__":
    sys.exit(main())
