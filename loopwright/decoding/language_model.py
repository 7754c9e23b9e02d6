"""``lw.load_language_model``: a file that writes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import random
from ..face.compiled_function import CompiledFunction
from ..face.user_errors import reports_errors
from ..ir.errors import LoopwrightValueError
from ..tracer import nn
from ..tracer.core.argument_specs import Dim
from .gguf_model import read_llama
from .llama import CACHES, empty_cache
from .vocabulary import Vocabulary

BLOCK = 128
"""The most tokens of a prompt that are computed at once: weights are read once for them."""


def greedy(_key: Any, scores: Any) -> Any:
    """Returns the token with the highest score."""
    return np.argmax(scores)


def sampler(temperature: float = 1.0, k: int = 40, p: float = 1.0) -> Callable[[Any, Any], Any]:
    """Returns a function that draws a token by scores over ``temperature``, among the ``k`` best
    ones, and of them the first whose probabilities sum up to ``p``."""

    def choose(key: Any, scores: Any) -> Any:
        best, tokens = nn.top_k(scores, min(k, scores.shape[0]))
        best = best / np.float32(temperature)
        shares = nn.softmax(best)
        before = np.cumsum(shares) - shares
        best = np.where((before < p) | (np.arange(len(best)) == 0), best, np.float32(-np.inf))
        return tokens[random.categorical(key, best)]

    return choose


class Decoder:
    """A model's compiled functions: ``token(tokens, start, cache)`` returns the scores of what
    comes after a token, ``block(before, tokens, cache)`` after a few, behind others. Both write the
    cache."""

    def __init__(self, model: Any, **options: Any) -> None:
        def token(tokens: Any, start: Any, cache: Any) -> Any:
            return model(tokens, start, cache)

        def block(before: Any, tokens: Any, cache: Any) -> Any:
            return model(tokens, before.shape[0], cache)

        self.model, self.options, context = model, options, model.sizes.context
        length = Dim("length", min=1, max=min(BLOCK, context))
        self._last_start = max(0, context - BLOCK)  # so that every block fits, whatever its length
        sizes = {"before": {0: Dim("start", max=self._last_start)}, "tokens": {0: length}}
        more: dict[str, Any] = {**options, "dynamic": sizes}
        self.token = CompiledFunction(token, **options)
        self.block = CompiledFunction(block, **more)

    def prompt(self, tokens: Any, cache: Any) -> Any:
        """Returns the scores of what follows tokens, which are read in blocks. Raises
        LoopwrightValueError if there are none, or more than the context has."""
        scores, context, tokens = None, self.model.sizes.context, np.asarray(tokens)
        if not 0 < len(tokens) <= context:
            raise LoopwrightValueError(f"{len(tokens)} tokens; 1 to {context} fit into the context")
        for at in range(0, len(tokens), BLOCK):
            start = min(at, self._last_start)
            scores = self.block(tokens[:start], tokens[start : start + BLOCK], cache)
        return scores


class LanguageModel(Decoder):
    """A decoder with its ``vocabulary`` and the kind of its ``cache``."""

    def __init__(self, model: Any, vocabulary: Vocabulary, cache: str, **options: Any) -> None:
        super().__init__(model, **options)
        self.vocabulary, self.cache = vocabulary, cache

    @reports_errors
    def generate(
        self,
        text: str,
        tokens: int = 128,
        *,
        temperature: float = 0.0,
        top_k: int = 40,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[str]:
        """Returns an iterator of what follows a text: at most so many ``tokens``, until the end of
        the text or the context. A character of several tokens comes with the last of them.

        The best token is taken, or, with a ``temperature`` above 0, one of the ``top_k`` best, and
        of them of the first that sum up to ``top_p``, by chance, which ``seed`` decides. Raises
        LoopwrightValueError for settings out of range and a text that the context cannot hold.
        """
        if not temperature >= 0 or top_k < 1 or not 0 < top_p <= 1 or tokens < 0:
            raise LoopwrightValueError(
                f"{tokens} tokens, temperature={temperature}, top_k={top_k}, top_p={top_p}"
            )
        choose = sampler(temperature, top_k, top_p) if temperature else greedy
        choose = CompiledFunction(choose, **self.options)
        prompt, cache = self.vocabulary.tokens(text), empty_cache(self.model.sizes, self.cache)
        scores, key = self.prompt(prompt, cache), random.key(seed)
        ends = range(len(prompt), min(len(prompt) + tokens, self.model.sizes.context))
        decoded = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def pieces(scores: Any) -> Iterator[str]:
            for end in ends:
                if not np.isfinite(scores).all():
                    raise LoopwrightValueError(f"scores of token {end} are not finite")
                token = int(choose(random.fold_in(key, end), scores))
                if token in self.vocabulary.ends:
                    break
                yield decoded.decode(self.vocabulary.content(token))
                if end + 1 < ends.stop:
                    scores = self.token(np.array([token]), end, cache)
            if rest := decoded.decode(b"", final=True):
                yield rest

        return pieces(scores)


@reports_errors
def load_language_model(
    path: str | Path,
    *,
    context: int = 2048,
    cache: str = "float32",
    activations: str = "float32",
    **options: Any,
) -> LanguageModel:
    """Returns the Llama in a GGUF file, whose weights stay as they are in the file.

    ``context`` is the most positions of a text, of which ``cache`` keeps keys and values in
    float32, bfloat16 or int8. With ``activations="int8"`` matrices of few bits multiply rows that
    are rounded to bytes, which is faster and less exact, as is the attention of a prompt's blocks,
    whose factors are rounded to bfloat16. ``options`` are those of ``lw.compile``.

    Raises LoopwrightValueError for a model or tokens of a kind that is not supported, and
    LoopwrightOSError for a file that is damaged or cannot be read.

    >>> try:
    ...     lw.load_language_model("absent.gguf")
    ... except FileNotFoundError as error:
    ...     print(error)
    [Errno 2] No such file or directory: 'absent.gguf'
    """
    if cache not in CACHES or activations not in ("float32", "int8") or context < 2:
        raise LoopwrightValueError(
            f"context={context}, cache={cache!r}, activations={activations!r}: at least 2, one of "
            f"{', '.join(CACHES)}, and float32 or int8"
        )
    return LanguageModel(*read_llama(path, context, activations), cache, **options)
