"""Speculative decoding: a cheap decoder guesses tokens, which the exact one reads as one block.

    python -m examples.decoder.speculative "To be or not to be"
    python -m examples.decoder.speculative --small --draft int4 --ahead 6 --tokens 200

The draft is the same GPT-2 with narrow weights. The answer is that of the exact model alone, token
by token: one pass over its weights yields as many tokens as the draft guessed right, and one more.
Leviathan and others, "Fast Inference from Transformers via Speculative Decoding" (2023), for the
best token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.decoding.language_model import Decoder
from loopwright.decoding.llama import empty_cache

from .few_bits import KINDS, narrowed
from .models import GPT2, GPT2_SMALL, TINY_GPT2, random_weights

__all__ = ["Speculator"]


class Speculator:
    """Two decoders of the same tokens, of which the ``draft`` guesses ``ahead`` tokens at a time.

    ``rounds`` counts the blocks that the exact model has read for answers.
    """

    def __init__(self, model: GPT2, draft: GPT2, ahead: int = 4, **options: Any) -> None:
        self.model, self.draft, self.ahead, self.rounds = model, draft, ahead, 0
        self._decoders = Decoder(model, **options), Decoder(draft, **options)

        def guess(token, start, cache):
            # The last guess is read as well, so that the draft's cache holds all of them.
            guesses = np.zeros(ahead + 1, np.int64)
            for n in range(ahead + 1):
                guesses[n] = token
                token = np.argmax(draft(token.reshape(1), start + n, cache))
            return guesses

        def check(tokens, start, cache):
            return np.argmax(model.scores(model.rows(tokens, start, cache)), -1)

        self._guess, self._check = lw.compile(guess, **options), lw.compile(check, **options)

    def answer(self, prompt: np.ndarray, count: int) -> np.ndarray:
        """Returns the best ``count`` tokens after a prompt, both of which the context must hold
        with ``ahead`` more. Raises ValueError if it does not."""
        end, context = len(prompt), self.model.sizes.context
        if end + count + self.ahead > context:
            raise ValueError(f"{end} + {count} + {self.ahead} tokens for a context of {context}")
        caches = [empty_cache(each.model.sizes) for each in self._decoders]
        scores = [
            decoder.prompt(prompt, cache)
            for decoder, cache in zip(self._decoders, caches, strict=True)
        ]
        token, answer = np.argmax(scores[0]), list[int]()
        while len(answer) < count:
            guesses = np.array([token])  # the first of them is the token itself
            if self.ahead:
                guesses = self._guess(token, end, caches[1])
            best = self._check(guesses, end, caches[0])  # what follows each of them
            right = int(np.argmin(np.append(guesses[1:] == best[:-1], False)))
            answer += guesses[: right + 1].tolist()
            # What the caches hold of wrong guesses is written again.
            token, end, self.rounds = best[right], end + right + 1, self.rounds + 1
        return np.array(answer[:count])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.decoder.speculative",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="?", default="To be or not to be")
    parser.add_argument("--small", action="store_true", help="the shape of GPT-2 small")
    parser.add_argument("--draft", choices=KINDS[1:], default="int8", help="weights of the draft")
    parser.add_argument("--ahead", type=int, default=4, help="tokens guessed at a time (4)")
    parser.add_argument("--tokens", type=int, default=64, help="length of the answer (64)")
    parser.add_argument("--threads", type=int, help="(all cores)")
    args = parser.parse_args(argv)
    sizes = GPT2_SMALL if args.small else TINY_GPT2
    weights = random_weights(GPT2.shapes(sizes))
    model, draft = GPT2(sizes, weights), GPT2(sizes, narrowed(weights, args.draft))
    prompt = np.frombuffer(args.prompt.encode(), np.uint8).astype(np.int64)
    for name, guesser, ahead in (("alone", draft, 0), (args.draft, draft, args.ahead)):
        speculator = Speculator(model, guesser, ahead, threads=args.threads)
        speculator.answer(prompt, 2)
        speculator.rounds, start = 0, time.perf_counter()
        tokens = speculator.answer(prompt, args.tokens)
        seconds = time.perf_counter() - start
        each = args.tokens / speculator.rounds
        print(
            f"{name:8} {args.tokens / seconds:7.4g} tokens/s, {each:.2f} a pass: "
            f"{tokens[:8].tolist()}..."
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
