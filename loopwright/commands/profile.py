"""``loopwright profile``: which kernel calls take the time and the memory of a call."""

from __future__ import annotations

import argparse
from pathlib import Path

from .log_files import existing_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "which lines of my function take the time, and the memory?"
DESCRIPTION = "Time each kernel call of a compiled function, and name the line it computes."
EXAMPLES = """\
examples:
  loopwright profile net.py:predict                       the longest kernel calls first
  loopwright profile net.py:predict --trace out.json      a trace for https://ui.perfetto.dev
  loopwright profile net.py:predict --memory              and the buffers of the arena
  loopwright profile net.py:predict --log net.jsonl --threads 1

Each kernel call is timed where it stands, at its best of many. GB/s counts each operand once. "of
roof" is the share of what this machine allows it; `loopwright explain` says of each kernel what
bounds it and where its schedule comes from. The trace has a row for each thread.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``profile``."""
    add_function_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to spend measuring (1)")
    parser.add_argument("--trace", metavar="FILE", help="write a Chrome trace of some calls")
    parser.add_argument("--memory", action="store_true", help="print what memory a call takes, too")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    if args.trace is not None and not Path(args.trace).absolute().parent.is_dir():
        raise UsageError(f"--trace {args.trace}: there is no folder {Path(args.trace).parent}")
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    positional, named = user.arrays()
    measured = user.compiled.profile(*positional, seconds=args.seconds, **named)
    print(measured)
    if args.memory:
        print(f"\n{user.compiled.memory(*positional, **named)}")
    if args.trace is not None:
        measured.save(args.trace)
        print(f"\ntrace    {args.trace}   (open it in https://ui.perfetto.dev)")
    return 0
