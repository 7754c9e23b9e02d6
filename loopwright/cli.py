"""The command ``loopwright``: arguments in, exit code out.

0 is fine, 1 says that something looked at is not as it should be, 2 that the command could not be
carried out: then one line on stderr tells why and what to do instead. A traceback is a bug of ours
(or asked for with ``LOOPWRIGHT_TRACEBACK=1``).
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from textwrap import indent
from typing import NoReturn

from .autotune.log.log_file import LogError
from .commands import (
    advise,
    bench,
    bundle,
    cache,
    completion,
    debug,
    doctor,
    explain,
    explore,
    generate,
    log,
    profile,
    quantize,
    report,
    run,
    runner,
    save,
    show,
    tune,
)
from .commands.usage import UsageError
from .config import Config, describe, setting
from .ir.errors import InternalError, LoopwrightError, printable

_DESCRIPTION = "Compile NumPy functions to machine code that is tuned for this machine."

_EXAMPLES = """\
examples:
  loopwright doctor                                        what can this machine do?
  loopwright show net.py:predict --level kernels           what does my function become?
  loopwright tune net.py:predict --budget 60s --log net.jsonl
  LOOPWRIGHT_LOG=net.jsonl python net.py                   run with what was found
  loopwright bench net.py:predict --log net.jsonl          how fast is it beside NumPy?
  loopwright bench model.onnx                              and a model beside ONNX Runtime?
  loopwright quantize model.onnx --samples data.npz -o model.lw
  loopwright generate model.gguf "Once upon a time"        what does a language model write?
  loopwright run model.onnx --input x.npy --output y.npy   what does it compute?
  loopwright explain net.py:predict --log net.jsonl        what bounds it, and how near is it?
  loopwright explore net.py:predict -o page.html           all its levels on one page
  loopwright profile net.py:predict --trace trace.json     which lines take the time?
  loopwright advise net.py:predict                         what would make it faster here?
  loopwright debug net.py:predict --log net.jsonl          is every operation right?
  loopwright runner --listen 127.0.0.1:7411 --key-file key  measure here what others tune
  loopwright report net.jsonl -o report.html               how did the search go? as one page
  loopwright log best net.jsonl                            which schedules won?

`loopwright COMMAND --help` explains each with examples.
"""

_COMMANDS = (
    tune,
    run,
    runner,
    save,
    bundle,
    quantize,
    generate,
    show,
    explain,
    explore,
    profile,
    advise,
    debug,
    report,
    log,
    bench,
    cache,
    completion,
    doctor,
)


_SECONDS = ("--second", "--seconds", "--time", "--timeout")
"""Names that others have for a budget."""


class _Parser(argparse.ArgumentParser):
    """Prints one line about what is wrong, and where the help is."""

    def error(self, message: str) -> NoReturn:
        message += self._meant(message)
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` explains)\n")

    def _meant(self, message: str) -> str:
        """Returns the command, value or option that is nearest to a wrong one."""
        if wrong := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            names = list(self._option_string_actions)
        elif wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            names = re.findall(r"[\w-]+", wrong[2])
        else:
            return ""
        near = difflib.get_close_matches(wrong[1], names, n=1)
        if wrong[1] in _SECONDS and "--budget" in names:
            near = ["--budget"]
        return f"; did you mean {near[0]}?" if near else ""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    top = _Parser(
        prog="loopwright",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLES}\nenvironment:\n{indent(describe(), '  ')}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"loopwright {version('loopwright')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    top.set_defaults(parser=top)
    for command in _COMMANDS:
        inner = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        inner.set_defaults(parser=inner)
        command.add_arguments(inner)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (``sys.argv`` by default). Returns its exit code."""
    top = parser()
    try:
        args, unknown = top.parse_known_args(argv, argparse.Namespace(top=top))
        if unknown:
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        if args.command is None:
            top.print_help(sys.stderr)
            return 2
        with (
            setting("LOOPWRIGHT_PRECISION", getattr(args, "precision", None)),
            setting("LOOPWRIGHT_RUNNER_KEY", getattr(args, "key_file", None)),
        ):
            return int(args.run(args))
    except SystemExit as stop:  # argparse has said what was wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:  # the reader of a pipe such as `| head` has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except UsageError as error:
        return _fail(str(error), 2)
    except LogError as error:
        return _fail(str(error), 2)
    except InternalError:
        raise
    except LoopwrightError as error:
        if _wants_traceback():
            raise
        return _fail(f"{type(error).__name__.removeprefix('Loopwright')}: {error}", 2)


def _wants_traceback() -> bool:
    try:
        return Config.read().traceback
    except LoopwrightError:  # a setting that does not fit may be what went wrong
        return False


def _fail(message: str, code: int) -> int:
    print(f"loopwright: {printable(message)}", file=sys.stderr)
    return code
