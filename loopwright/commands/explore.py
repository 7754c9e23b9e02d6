"""``loopwright explore``: a function at every level, as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..inspect.explore.page import page
from .log_files import existing_log, open_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "what does my function become, line by line? as one page"
DESCRIPTION = (
    "Write one HTML page with a function's source, graph, kernels, loops, program, LLVM and "
    "assembly; the line under the cursor is lit at every level."
)
EXAMPLES = """\
examples:
  loopwright explore net.py:predict                       writes predict.html
  loopwright explore net.py:predict -o page.html --log net.jsonl
  loopwright explore model.onnx

Each kernel is timed and compared with what this machine allows, as `loopwright explain` does. With
--log, its schedules are taken, and the page shows what the search tried. The page fetches nothing:
it can be mailed, or opened without a network.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``explore``."""
    add_function_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (the function's, .html)")
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, and show it")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to spend measuring (1)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    title = Path(user.name).name  # as net.py:predict
    output = Path(args.output or f"{Path(title.rpartition(':')[2]).stem}.html")
    positional, named = user.arrays()
    lowered = user.compiled.lower(*positional, **named)
    explanation = lowered.explain(*positional, seconds=args.seconds, **named)
    text = page(title, lowered.built, explanation, None if log is None else open_log(log))
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error
    print(f"{output}: {len(explanation.kernels)} kernels, {len(text) / 1024:.0f} KiB")
    return 0
