"""A whole answer in one native call, beside the functions for a prompt and a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.decoding.language_model import Decoder, greedy
from loopwright.decoding.llama import Llama

from .models import GPT2

__all__ = ["Answerer"]

Choose = Callable[[Any, Any], Any]
"""``choose(key, scores)`` returns the next token."""


def _arrays(cache: Any) -> list[Any]:
    """Returns the arrays of a cache, of which a layer may have two."""
    return [a for layer in cache for a in (layer if isinstance(layer, tuple) else (layer,))]


class Answerer(Decoder):
    """A decoder that writes a whole answer in one native call: ``answer(scores, start, count, key,
    cache)`` chooses ``count`` tokens, one after the other."""

    def __init__(self, model: GPT2 | Llama, choose: Choose = greedy, **options: Any) -> None:
        super().__init__(model, **options)
        context = model.sizes.context

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

        self.answer = lw.compile(answer, **options)
