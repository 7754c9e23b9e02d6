"""``loopwright explain``: where the time of a call goes, and what bounds each kernel."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..inspect.explain import explanation_text
from ..inspect.roofline_svg import roofline_svg
from .log_files import existing_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "what bounds each kernel of my function, and how near is it?"
DESCRIPTION = (
    "Time each kernel of a compiled function and compare it with what this machine allows."
)
EXAMPLES = """\
examples:
  loopwright explain net.py:predict                       as compiled without a log
  loopwright explain net.py:predict --log net.jsonl --threads 1
  loopwright explain net.py:layer --arg 'x=f32[1000,512]' --loops
  loopwright explain net.py:predict --svg roofline.svg    a picture, for any browser

Each kernel is timed where it stands in a call, at its best of many. Its operations and the bytes it
moves to and from each level of memory are counted on its loop nest (l1: between registers and the
L1), and the machine's measured peak and bandwidths (`loopwright doctor`) say how long that
takes at least: "allows". The longest bounds it. What a cache still holds from the kernel before
does not count for the levels behind it. Where the model counts too much, it says over 100 %.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``explain``."""
    add_function_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to spend measuring (1)")
    parser.add_argument("--loops", action="store_true", help="print the kernels' loop nests, too")
    parser.add_argument("--svg", metavar="FILE", help="write the roofline as a picture")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    picture = None if args.svg is None else _writable(Path(args.svg))
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    positional, named = user.arrays()
    lowered = user.compiled.lower(*positional, **named)
    explanation = lowered.explain(*positional, seconds=args.seconds, **named)
    print(explanation_text(user.name, explanation, loops=args.loops))
    if picture is not None:
        picture.write_text(roofline_svg(user.name, explanation))
        print(f"\npicture    {picture}")
    return 0


def _writable(path: Path) -> Path:
    if path.suffix.lower() != ".svg":
        raise UsageError(f"--svg {path}: the picture is an SVG; name it {path.stem or 'roof'}.svg")
    if not path.parent.is_dir():
        raise UsageError(f"--svg {path}: there is no folder {path.parent}")
    return path
