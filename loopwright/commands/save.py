"""``loopwright save``: a function or model as one file that needs no compiler."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ..codegen.target import X86_LEVELS, Target
from ..text import bytes_text
from .log_files import existing_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "compile a function or model into a file"
DESCRIPTION = "Write machine code, weights and calling convention to one file, for lw.load."
EXAMPLES = """\
examples:
  loopwright save model.onnx -o model.lw --log model.jsonl      with what tuning has found
  loopwright save net.py:predict -o net.lw --isa x86-64-v3      runs on every machine with AVX2
  loopwright run net.lw --input x.npy --output y.npy
  loopwright bench net.lw

In Python, lw.load("net.lw") returns the function. Load files of people you trust only: the code in
them is run. lw.load("net.lw", compile=True) compiles the program in the file instead.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``save``."""
    add_function_arguments(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE.lw", help="the file to write"
    )
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument(
        "--isa",
        choices=X86_LEVELS,
        help="make code for processors of this level",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log = None if args.log is None else str(existing_log(args.log))
    path = Path(args.output)
    if not path.parent.is_dir():
        raise UsageError(f"-o {path}: there is no folder {path.parent}")
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    if args.isa is not None:
        user.compiled.target = replace(Target.host().with_isa(args.isa), features=frozenset())
    try:
        user.compiled.lower(*user.args, **user.kwargs).save(path)
    except OSError as error:
        raise UsageError(f"-o {path} cannot be written: {error.strerror or error}") from error
    print(f"{path}: {user.name}, {bytes_text(path.stat().st_size)}")
    return 0
