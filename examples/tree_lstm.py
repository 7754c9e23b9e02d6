"""A tree-LSTM learns what sentences mean from their trees: each step is one native call.

The sentences are made here: words that are good, bad or neither, joined two by two, where "not"
turns what stands beside it into its opposite. A tree is a value of a data type; the network folds
it, where values of one height are computed together, and ``lw.grad`` differentiates the fold (K. S.
Tai, R. Socher, C. D. Manning, "Improved semantic representations from tree-structured long
short-term memory networks", 2015).

    python -m examples.tree_lstm
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np

STATE, WORDS, NOT = 32, 24, 0
TRAINED_ON, TESTED_ON, EPOCHS = 400, 200, 4


@lw.data
class Tree: ...


class Word(Tree):
    number: int


class Pair(Tree):
    left: Tree
    right: Tree


def meaning(tree: Any) -> int:
    """What a sentence means: the number of its good words minus that of its bad ones."""
    match tree:
        case Word(number):
            return (number % 3 - 1) if number != NOT else 0
        case Pair(Word(0), other) | Pair(other, Word(0)):
            return -meaning(other)
        case Pair(left, right):
            return meaning(left) + meaning(right)


def sentence(rng: np.random.Generator, words: int) -> Any:
    """A tree over so many words, which means something."""
    while True:
        parts: list[Any] = [Word(int(n)) for n in rng.integers(WORDS, size=words)]
        while len(parts) > 1:
            at = int(rng.integers(len(parts) - 1))
            parts[at : at + 2] = [Pair(parts[at], parts[at + 1])]
        if meaning(parts[0]):
            return parts[0]


def start(seed: int) -> dict[str, Any]:
    """Weights: vectors of words, of the gates of pairs, and of what is said in the end."""
    rng = np.random.default_rng(seed)
    shapes = {"words": (WORDS, STATE), "w": (2 * STATE, 5 * STATE), "out": (STATE, 2)}
    params = {n: rng.standard_normal(s, np.float32) * np.float32(0.2) for n, s in shapes.items()}
    return params | {"b": np.zeros(5 * STATE, np.float32)}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def scores(params: Any, tree: Any) -> Any:
    """float32[2]: of bad and of good."""

    def word(number: Any) -> Any:
        cell = params["words"][number]
        return np.tanh(cell), cell

    def pair(left: Any, right: Any) -> Any:
        (h, c), (i, d) = left, right
        gates = np.concatenate([h, i]) @ params["w"] + params["b"]
        taken, kept, also, shown = sigmoid(gates[: 4 * STATE]).reshape(4, STATE)
        cell = taken * np.tanh(gates[4 * STATE :]) + kept * c + also * d
        return shown * np.tanh(cell), cell

    state, _ = lw.fold(tree, {Word: word, Pair: pair})
    return state @ params["out"]


def loss(params: Any, tree: Any, label: Any) -> Any:
    """The cross-entropy."""
    return -lw.nn.log_softmax(scores(params, tree))[label]


optimiser = lw.optim.adam(3e-3)


@lw.compile(donate_argnames=("params", "state"))
def step(params: Any, state: Any, tree: Any, label: Any) -> Any:
    """Parameters and optimiser's state after one sentence."""
    updates, state = optimiser.update(lw.grad(loss)(params, tree, label), state, params)
    return lw.optim.apply(params, updates), state


@lw.compile
def is_good(params: Any, tree: Any) -> Any:
    return scores(params, tree).argmax()


def train(seed: int = 0, epochs: int = EPOCHS) -> tuple[Any, float]:
    """Trains; returns the weights, and the share of new sentences that are understood."""
    rng = np.random.default_rng(seed)
    trees = [sentence(rng, int(n)) for n in rng.integers(2, 9, TRAINED_ON + TESTED_ON)]
    labels = [int(meaning(tree) > 0) for tree in trees]
    params = start(seed)
    state = optimiser.init(params)
    for epoch in range(epochs):
        begun = time.perf_counter()
        for n in rng.permutation(TRAINED_ON):
            params, state = step(params, state, trees[n], labels[n])
        held_out = range(TRAINED_ON, len(trees))
        right = sum(int(is_good(params, trees[n])) == labels[n] for n in held_out)
        share, seconds = right / TESTED_ON, time.perf_counter() - begun
        print(f"epoch {epoch}: {share:.0%} of {TESTED_ON} new sentences, {seconds:.1f} s")
    return params, share


if __name__ == "__main__":
    train()
