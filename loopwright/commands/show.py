"""``loopwright show``: a function at every level between Python and machine code."""

from __future__ import annotations

import argparse

from .log_files import existing_log
from .userfile import add_function_arguments, load_function

LEVELS = {
    "graph": "what is computed: the typed graph, each line with the line of Python it came from",
    "kernels": "after fusion: one kernel per group of operators, as tensor expressions",
    "loops": "each kernel as a loop nest, with its schedule applied",
    "vector": "each loop nest as the target runs it: vectors, registers, instructions",
    "program": "the kernels in order on planned buffers",
    "llvm": "the LLVM IR",
    "asm": "the assembly",
}

HELP = "show what a function becomes, at any level"
DESCRIPTION = "Trace and lower a function for given shapes, and print it."
EXAMPLES = """\
examples:
  loopwright show net.py:predict                             the graph
  loopwright show net.py:predict --level loops --log net.jsonl
  loopwright show net.py:layer --arg 'x=f32[1000,512]' --level kernels
  loopwright show net.py:layer --arg 'x=f32[1000,512]' --level asm | less

levels:
""" + "".join(f"  {name:<9} {what}\n" for name, what in LEVELS.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``show``."""
    add_function_arguments(parser)
    parser.add_argument("--level", choices=tuple(LEVELS), default="graph", help="see below (graph)")
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log)
    print(user.compiled.lower(*user.args, **user.kwargs).as_text(args.level))
    return 0
