"""``loopwright bundle``: a function or model as an object that C programs link."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..codegen.bundle.interface import THREADS
from ..codegen.target import ISA_LEVELS
from ..doors.bundle import CORES, bundle_saved
from ..text import bytes_text
from .log_files import existing_log
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "compile a function or model into an object for C programs"
DESCRIPTION = "Write an object, a header, weights and an example in C, which need no Python."
EXAMPLES = """\
examples:
  loopwright bundle net.py:predict -o out/ --target x86-64-v3
  loopwright bundle model.onnx -o out/ --fat --threads pool       every x86-64, best code there is
  loopwright bundle net.py:predict -o out/ --target x86-64-v3,aarch64    a folder for each
  cc out/predict_example.c out/predict.o -o example && ./example out
  loopwright bundle net.py:predict -o out/ --target wasm32 --html    a page that runs it
  loopwright bundle net.py:predict -o out/ --c                    readable C, for any processor

In Python, f.lower(...).bundle("out/") does the same. docs/bundles.md says more.
"""

_FLAGS = {
    "--fat": "code for all levels of x86-64 in one object",
    "--c": "write C in the place of the object, for any compiler",
    "--static-memory": "make working memory a part of the object",
    "--link-weights": "write the weights as an object, too",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``bundle``."""
    add_function_arguments(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="the folder to write"
    )
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument(
        "--target",
        default="",
        metavar="LEVEL,...",
        help=f"processors: {', '.join(ISA_LEVELS)}; this machine's without",
    )
    for flag, text in _FLAGS.items():
        parser.add_argument(flag, action="store_true", help=text)
    parser.add_argument("--name", default="", help="the name of the C function")
    text = "write a Python wheel, too, that needs NumPy only"
    parser.add_argument("--wheel", nargs="?", const="1.0", default="", metavar="VERSION", help=text)
    text = "write a page that runs it, too (wasm32); with fetch, its weights stay a file"
    parser.add_argument("--html", nargs="?", const="inline", default="", metavar="fetch", help=text)
    parser.add_argument(
        "--threads", choices=THREADS, default="none", help="what runs parallel loops"
    )
    parser.add_argument(
        "--cores", type=int, default=CORES, help=f"cores to cut loops for ({CORES})"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log = None if args.log is None else str(existing_log(args.log))
    names = ("name", "fat", "static_memory", "threads", "cores", "wheel", "c", "html")
    options: dict[str, Any] = {name: getattr(args, name) for name in names}
    options["linked_weights"] = args.link_weights
    options["targets"] = tuple(filter(None, args.target.split(",")))
    try:
        if Path(args.function).suffix == ".lw":
            if args.arg or log is not None:
                raise UsageError(f"{args.function}: neither --arg nor --log can change it")
            folders = bundle_saved(Path(args.function), Path(args.output), options)
        else:
            user = load_function(args.function, args.arg, log=log)
            lowered = user.compiled.lower(*user.args, **user.kwargs)
            given, named = user.arrays()
            options["example"] = lowered.operands(*given, **named)
            folders = lowered.bundle(args.output, **options)
    except OSError as error:
        raise UsageError(f"{error.filename or args.output}: {error.strerror or error}") from error
    for folder in folders:
        for path in sorted(Path(folder).iterdir()):
            print(f"{path}: {bytes_text(path.stat().st_size)}")
    return 0
