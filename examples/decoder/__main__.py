"""Lets a decoder write: tokens are the bytes of the text, so that no tokeniser is needed.

    python -m examples.decoder "Once upon a time"                   a tiny GPT-2, random weights
    python -m examples.decoder --model llama --temperature 0.8      a tiny Llama, sampling
    python -m examples.decoder --small --tokens 200 --threads 2     the shape of GPT-2 small
    python -m examples.decoder --small --bits int4 --cache int8     with narrow weights and cache
    python -m examples.decoder --weights gpt2.npz --heads 12        a checkpoint's arrays

Random weights write nonsense, at the speed at which trained ones would write sense. Prints the time
to the first token and the tokens per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import loopwright as lw
import numpy as np
from loopwright.decoding.language_model import greedy, sampler
from loopwright.decoding.llama import CACHES, Llama, Sizes, empty_cache

from .few_bits import KINDS, narrowed
from .generate import Answerer
from .models import GPT2, GPT2_SMALL, SMALL_LLAMA, TINY_GPT2, loaded_llama, random_weights

MODELS = {"gpt2": GPT2, "llama": Llama}
SMALL = {"gpt2": GPT2_SMALL, "llama": SMALL_LLAMA}
TINY = {
    "gpt2": TINY_GPT2,
    "llama": Sizes(layers=2, width=64, heads=4, groups=2, hidden=192, words=256, context=256),
}


def loaded(args: argparse.Namespace) -> GPT2 | Llama:
    """Returns the model that the command line asks for."""
    kind = MODELS[args.model]
    if args.weights is not None:
        with np.load(args.weights) as arrays:
            weights = {name: arrays[name] for name in arrays.files}
            return (GPT2.loaded if kind is GPT2 else loaded_llama)(weights, args.heads)
    sizes = (SMALL if args.small else TINY)[args.model]
    weights = random_weights(kind.shapes(sizes))
    return kind(sizes, narrowed(weights, args.bits, args.model == "llama"))


def text_of(tokens: np.ndarray) -> str:
    """Returns tokens as text: bytes that can be printed, the numbers of all others."""
    return "".join(chr(t) if 32 <= t < 127 else f"<{t}>" for t in tokens.tolist())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo."""
    args = _parser().parse_args(argv)
    model = loaded(args)
    choose = sampler(args.temperature, args.top) if args.temperature else greedy
    decoder = Answerer(model, choose, threads=args.threads)
    prompt = np.frombuffer(args.prompt.encode(), np.uint8).astype(np.int64)
    count = min(args.tokens, model.sizes.context - len(prompt))
    if not len(prompt) or count < 1:
        print(f"the prompt has {len(prompt)} tokens, the context {model.sizes.context}")
        return 2
    for run in ("compiled", "again"):
        cache = empty_cache(model.sizes, args.cache)
        key = lw.random.key(args.seed)
        start = time.perf_counter()
        scores = decoder.prompt(prompt, cache)
        first = time.perf_counter()
        tokens = decoder.answer(scores, len(prompt), count, key, cache)[:count]
        end = time.perf_counter()
        if run == "again":
            print(f"{args.prompt}{text_of(tokens)}")
        print(
            f"{run}: {1e3 * (first - start):.3g} ms for the {len(prompt)} tokens of the prompt, "
            f"{count / (end - first):.4g} tokens/s for the {count} of the answer"
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.decoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="?", default="To be or not to be")
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--small", action="store_true", help="not a tiny model, a small one")
    parser.add_argument("--weights", type=Path, help=".npz with the arrays of a checkpoint")
    parser.add_argument("--heads", type=int, default=12, help="of the checkpoint (12)")
    parser.add_argument("--bits", choices=KINDS, default="float32", help="of the weights")
    parser.add_argument("--cache", choices=CACHES, default="float32", help="its kind")
    parser.add_argument("--tokens", type=int, default=64, help="length of the answer (64)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the best token (0)")
    parser.add_argument("--top", type=int, default=40, help="tokens that may be drawn (40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="(all cores)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
