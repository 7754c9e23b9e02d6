"""``loopwright runner``: measure on this machine what others tune."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from ..autotune.measure.elsewhere.remote import RunnerError
from ..autotune.measure.elsewhere.service import Service
from ..autotune.measure.elsewhere.wire import read_key, write_key
from ..config import Config
from .usage import UsageError

HELP = "measure on this machine what others tune"
DESCRIPTION = "Listen for tuners that have the key, and measure their kernels on this machine."
EXAMPLES = """\
examples:
  loopwright runner --new-key board.key                   on one machine; copy the file to the other
  loopwright runner --listen 127.0.0.1:7411 --key-file board.key
  loopwright tune net.py:predict --log net.jsonl --runner tcp://board:7411 --key-file board.key

Whoever has the key can have this machine compile and run kernels, which are checked and guarded as
those of a tuner here are. Nothing listens unless it is asked to; messages are authenticated, not
encrypted: over networks of others use a tunnel (ssh -L 7411:127.0.0.1:7411 board).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``runner``."""
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen; port 0: any")
    parser.add_argument("--key-file", metavar="FILE", help="the key (else LOOPWRIGHT_RUNNER_KEY)")
    parser.add_argument("--new-key", metavar="FILE", help="write a new key to a file, and end")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.new_key is not None:
        try:
            write_key(Path(args.new_key))
        except OSError as error:
            raise UsageError(f"--new-key {args.new_key}: {error.strerror or error}") from error
        print(f"{args.new_key}: copy it to the other machine; nobody else may have it")
        return 0
    host, _, port = (args.listen or "").rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise UsageError("where to listen? --listen HOST:PORT, such as 127.0.0.1:7411")
    key_file = Config.read().runner_key
    if key_file is None:
        raise UsageError("which key? --key-file FILE; --new-key FILE makes one")
    try:
        service = Service(host.strip("[]"), int(port), read_key(key_file), _say)
    except RunnerError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--listen {args.listen}: {error.strerror or error}") from error

    def end(_number: int, _frame: FrameType | None) -> None:
        service.close()

    signal.signal(signal.SIGTERM, end)
    print(f"listening at {host}:{service.port}; Ctrl-C ends it", flush=True)
    try:
        service.run()
    except KeyboardInterrupt:
        pass
    finally:
        service.close()
    return 0


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
