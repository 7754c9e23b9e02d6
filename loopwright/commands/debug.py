"""``loopwright debug``: is the compiled code right, and if not, which operation is to blame?"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..debug import compare, write_repro
from .log_files import existing_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "which operation gives a wrong result?"
DESCRIPTION = "Compare a compiled function with NumPy in float64, operation by operation."
EXAMPLES = """\
examples:
  loopwright debug net.py:predict                        as compiled without a log
  loopwright debug net.py:predict --log net.jsonl        with the schedules of a log
  loopwright debug net.py:predict --each                 and the error of each operation
  loopwright debug net.py:predict --repro wrong.py       and write a program that shows it

Every kernel runs by itself on what the code before it gave, and is held against NumPy in float64.
The first operation beyond the tolerance is shown with its line, the values on both sides, its
schedule, and the level at which it goes wrong. Exit code 1 if there is one.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``debug``."""
    add_function_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--each", action="store_true", help="tell the error of each operation")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random arguments (0)")
    parser.add_argument("--repro", metavar="FILE", help="write a Python file that shows it")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    repro = None if args.repro is None else Path(args.repro)
    if repro is not None and not repro.parent.is_dir():
        raise UsageError(f"--repro {repro}: there is no folder {repro.parent}")
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    positional, named = user.arrays(args.seed)
    comparison = compare(user.compiled, *positional, each=args.each, **named)
    print(comparison)
    if repro is not None:
        print(f"\nrepro    {write_repro(user.compiled, *positional, path=repro, **named)}")
    return int(comparison.differs)
