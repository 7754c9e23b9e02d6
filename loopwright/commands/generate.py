"""``loopwright generate``: a language model of a file writes on."""

from __future__ import annotations

import argparse
import sys
import time

from ..decoding.language_model import load_language_model
from ..decoding.llama import CACHES
from ..ir.errors import printable

HELP = "let a language model write on"
DESCRIPTION = "Print a text and what a Llama in a GGUF file writes behind it, token by token."
EXAMPLES = """\
examples:
  loopwright generate model.gguf "Once upon a time"
  loopwright generate model.gguf "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 3
  loopwright generate model.gguf "To be" --cache int8 --activations int8 --threads 2

Weights stay as they are in the file: Q4_0, Q8_0, Q4_K, Q6_K, float16, bfloat16 or float32. The
tokens per second are told on stderr, without the time for the prompt and for compiling.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``generate``."""
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("text", help="what to begin with")
    for flag, kind, default, help in (
        ("tokens", int, 128, "most tokens to write"),
        ("temperature", float, 0.0, "0: the best token; above: by chance"),
        ("top-k", int, 40, "tokens among which chance decides"),
        ("top-p", float, 1.0, "and of them the best ones that sum up to this probability"),
        ("seed", int, 0, "of chance"),
        ("context", int, 2048, "most tokens of text and answer"),
    ):
        parser.add_argument(f"--{flag}", type=kind, default=default, help=f"{help} ({default})")
    parser.add_argument("--cache", choices=CACHES, default="float32", help="of keys and values")
    parser.add_argument(
        "--activations",
        choices=("float32", "int8"),
        default="float32",
        help="what weights of few bits multiply: int8 is faster and less exact",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    options = {} if args.threads is None else {"threads": args.threads}
    model = load_language_model(
        args.model,
        context=args.context,
        cache=args.cache,
        activations=args.activations,
        **options,
    )
    answer = model.generate(
        args.text,
        args.tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed,
    )
    print(args.text, end="", flush=True)
    times: list[float] = []
    for piece in answer:
        print(printable(piece), end="", flush=True)
        times.append(time.perf_counter())
    print()
    if len(times) > 2:
        rate = (len(times) - 2) / (times[-1] - times[1])  # the first two wait for compilations
        print(f"{len(times)} tokens, {rate:.4g} tokens/s", file=sys.stderr)
    return 0
