"""From a model to text: one function for the prompt, one for a token, one for a whole answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np

from .models import GPT2, Llama

__all__ = ["Decoder", "greedy", "sampler"]

Choose = Callable[[Any, Any], Any]
"""``choose(key, scores)`` returns the next token."""


def greedy(key: Any, scores: Any) -> Any:
    """Returns the token with the highest score."""
    return np.argmax(scores)


def sampler(temperature: float = 1.0, k: int = 40) -> Choose:
    """Returns a function that draws among the ``k`` best tokens."""

    def choose(key: Any, scores: Any) -> Any:
        best, tokens = lw.nn.top_k(scores, k)
        return tokens[lw.random.categorical(key, best / np.float32(temperature))]

    return choose


def _arrays(cache: Any) -> list[Any]:
    """Returns the arrays of a cache, of which a layer may have two."""
    return [a for layer in cache for a in (layer if isinstance(layer, tuple) else (layer,))]


class Decoder:
    """A model with compiled functions and the cache that they share.

    ``prompt(tokens, cache)`` reads a prompt of any length from the first position on and returns
    the scores of what comes next; ``token(token, start, cache)`` does so for one more token;
    ``answer(scores, start, count, key, cache)`` chooses ``count`` tokens, one after the other, in
    one native call. All of them write the cache in place.
    """

    def __init__(self, model: GPT2 | Llama, choose: Choose = greedy, **options: Any) -> None:
        context = model.sizes.context

        def prompt(tokens, cache):
            return model(tokens, 0, cache)

        def token(token, start, cache):
            return model(token, start, cache)

        def answer(scores, start, count, key, cache):
            def step(carry):
                n, scores, tokens, cache = carry
                chosen = choose(lw.random.fold_in(key, n), scores)
                tokens[n] = chosen
                scores = model(chosen.reshape(1), start + n, cache)
                return n + 1, scores, tokens, cache

            tokens = np.zeros(context, np.int64)
            first = (0, scores, tokens, cache)
            _, _, tokens, kept = lw.while_loop(lambda carry: carry[0] < count, step, first)
            for old, new in zip(_arrays(cache), _arrays(kept)):
                old[:] = new
            return tokens

        self.model = model
        length = lw.Dim("length", min=1, max=context)
        self.prompt = lw.compile(prompt, dynamic={"tokens": {0: length}}, **options)
        self.token = lw.compile(token, **options)
        self.answer = lw.compile(answer, **options)
