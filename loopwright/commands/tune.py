"""``loopwright tune``: search for faster schedules of a function's kernels, within a budget."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..autotune.budget import parse_budget
from ..autotune.log.log_file import problem_of
from ..autotune.log.log_index import forget_log
from ..autotune.logtool.replay import ReplayError, replay
from ..autotune.search.strategies import DEFAULT_STRATEGY, STRATEGIES
from ..codegen.machine import measured_machine
from ..codegen.target import Target
from ..config import Config
from ..inspect.tasks import list_tasks
from ..ir.files import read_named
from ..text import rate_text, seconds_text
from .log_files import open_log
from .usage import UsageError
from .userfile import WHERE, UserFunction, add_function_arguments, load_function

_ORIGINS = {"exact": "tuned", "compatible": "tuned", "library": "NumPy"}

HELP = "search for faster schedules, and remember them in a log"
DESCRIPTION = "Measure schedules for the kernels of a function, guided by a cost model."
EXAMPLES = """\
examples:
  loopwright tune net.py:predict --budget 60s --log net.jsonl
  loopwright tune net.py:predict --arg 'x=f32[1,3,224,224]' --budget 5m --log net.jsonl
  loopwright tune net.py:predict --trials 200 --threads 1 --log net.jsonl
  loopwright tune net.py:predict --arg 'x=f32[n,784]' --weights 1:0.8,128:0.2 --log net.jsonl
  loopwright tune net.py:predict --list                  what there is to tune, and what it costs
  loopwright tune net.py:predict --log net.jsonl --runner dask://head:8786
  loopwright tune net.py:predict --log net.jsonl --runner tcp://board:7411 --key-file board.key
  loopwright tune --replay net.jsonl                     the last run again, nothing is measured

Every candidate that was measured is appended to the log, so a search that was stopped (Ctrl-C) goes
on where it stood, and LOOPWRIGHT_LOG=net.jsonl lets any program use what was found. A budget is
30, 30s, 2m, 1m30s, 1h; with --trials, whichever is used up first ends the search.

--replay LOG decides all of a run again, with the log in place of the hardware, and says where the
engine first decides otherwise (exit code 1): for bug reports, and for work on the search itself.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``tune``."""
    add_function_arguments(parser, optional=True)
    parser.add_argument("--budget", default=None, metavar="TIME", help="how long (60s)")
    parser.add_argument("--trials", type=int, metavar="N", help="at most so many candidates")
    parser.add_argument(
        "--weights",
        metavar="SIZE:SHARE,...",
        help="sizes to tune a function with symbolic sizes at, and how often each is met; several "
        "sizes as 8x128 (a few of the range, which all count alike)",
    )
    parser.add_argument("--log", metavar="FILE", help="append to this log (else LOOPWRIGHT_LOG)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on from what the log knows (the default); else the log is set aside as FILE.1, "
        "FILE.2, ... and a new one begun",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the search (0)")
    parser.add_argument(
        "--strategy",
        choices=tuple(STRATEGIES),
        default=DEFAULT_STRATEGY,
        help=f"how candidates are chosen ({DEFAULT_STRATEGY})",
    )
    parser.add_argument(
        "--schedule",
        action="append",
        default=[],
        metavar="KERNEL=FILE",
        help="measure this schedule (JSON, as in a log) of a kernel first",
    )
    parser.add_argument(
        "--list", action="store_true", help="only list the kernels, their calls and shares of time"
    )
    parser.add_argument(
        "--runner",
        metavar="tcp://HOST:PORT",
        help="measure on a machine where `loopwright runner` listens, or several with commas; "
        "dask://HOST:PORT: on the workers of a Dask cluster (pip install 'loopwright[dask]')",
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help="the key of tcp:// machines (else LOOPWRIGHT_RUNNER_KEY)"
    )
    parser.add_argument("--replay", metavar="LOG", help="repeat a run's decisions from its log")
    parser.add_argument("--run", metavar="ID", dest="run_id", help="which run (the last)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    begun = time.monotonic()
    if args.replay is not None:
        return _replay(args)
    if args.run_id is not None:
        raise UsageError("--run names a run of a log to replay: give --replay LOG, too")
    if args.function is None:
        raise UsageError(f"which function? give it as {WHERE}, or --replay LOG")
    if args.list:
        return _list(args)
    if args.trials is not None and args.trials < 1:
        raise UsageError(f"--trials {args.trials}: there must be at least one")
    budget = args.budget or (None if args.trials else "60s")
    limits = None
    if budget is not None:
        try:
            limits = parse_budget(budget)
        except ValueError as error:
            raise UsageError(f"--budget: {error}") from error
    weights = None if args.weights is None else _weights(args.weights)
    log = _log(args.log)
    user = load_function(args.function, args.arg, threads=args.threads)
    if not args.resume and log.exists():
        print(f"{log} is set aside as {_set_aside(log)}")
    print(f"{user.name}   {args.runner or _machine_here(user)}", flush=True)
    if limits is not None:  # loading the file counts, and so does measuring the machine
        limits = replace(limits, spent=time.monotonic() - begun)
    report = user.compiled.tune(
        *user.args,
        budget=limits,
        trials=args.trials,
        log=log,
        seed=args.seed,
        strategy=args.strategy,
        schedules=dict(_schedule(text) for text in args.schedule),
        runner=args.runner,
        weights=weights,
        **user.kwargs,
    )
    print(report)
    return int(bool(report.tasks) and report.is_empty)


def _weights(text: str) -> dict[int | tuple[int, ...], float]:
    """Returns the shares of sizes in ``1:0.8,128:0.2`` or ``8x128:1``."""
    weights: dict[int | tuple[int, ...], float] = {}
    for part in text.split(","):
        sizes, _, share = part.partition(":")
        try:
            each = tuple(int(s) for s in sizes.split("x"))
            weights[each[0] if len(each) == 1 else each] = float(share)
        except ValueError:
            raise UsageError(f"--weights {part}: a size and its share, as in 128:0.2") from None
    return weights


def _list(args: argparse.Namespace) -> int:
    """Returns the tasks that tuning would have, with their measured times."""
    user = load_function(args.function, args.arg, log=args.log, threads=args.threads)
    values, named = user.arrays(args.seed)
    lowered = user.compiled.lower(*values, **named)
    tasks = list_tasks(lowered.built, lowered.operands(*values, **named))
    calls = sum(task.calls for task in tasks)
    total = sum(task.calls * task.seconds for task in tasks)
    print(f"{user.name}   {calls} calls of {len(tasks)} kernels, {seconds_text(total)} in kernels")
    width = max((len(task.name) for task in tasks), default=0)
    for task in tasks:
        others = f" (also {', '.join(task.names[1:])})" if len(task.names) > 1 else ""
        cost = f"x{task.calls:<3} {100 * task.share:5.1f} %  {seconds_text(task.seconds):>8} each"
        origin = _ORIGINS.get(task.origin, task.origin)
        print(f"  {task.name:<{width}}  {cost}   {origin:<7}  {task.text}{others}")
    return 0


def _set_aside(log: Path) -> Path:
    """Renames a log, so that a new one begins. Returns its new name, which no file had before."""
    number = 1
    while (old := log.with_name(f"{log.name}.{number}")).exists():
        number += 1
    log.rename(old)
    forget_log(log)
    return old


def _machine_here(user: UserFunction) -> str:
    """Returns a line such as ``x86-64-v4, 2 threads, peak 240 GFLOP/s (measured)``."""
    target = user.compiled.target or Target.host()
    machine = measured_machine(target)  # once per machine; it takes seconds, which are not searched
    used = user.compiled.threads or Config.read().threads or target.cores
    peak = rate_text(machine.peak_flops(used), "FLOP/s")
    how = "measured" if machine.measured else "estimated"
    return f"{target.isa}, {used} threads, peak {peak} ({how})"


def _schedule(given: str) -> tuple[str, Any]:
    """Parses ``KERNEL=FILE``. Returns the kernel's name and the data in the file."""
    kernel, _, name = given.partition("=")
    if not kernel or not name:
        raise UsageError(f"--schedule {given}: write KERNEL=FILE")
    try:
        data = json.loads(read_named(name))
    except (OSError, ValueError) as error:
        raise UsageError(f"--schedule {given}: {error}") from error
    if not isinstance(data, list):
        raise UsageError(f"--schedule {given}: {name} holds no list of steps")
    return kernel, data


def _replay(args: argparse.Namespace) -> int:
    if args.function is not None:
        raise UsageError("--replay takes the kernels from the log: leave the function out")
    log = open_log(args.replay)
    try:
        result = replay(log, args.run_id)
    except ReplayError as error:
        raise UsageError(f"{log.path}: {error}") from error
    print(f"run {result.run}: {result.steps} of {result.length} records decided again")
    for remark in result.remarks:
        print(f"  {remark}")
    if result.departure is not None:
        print(f"  departs at record {result.steps + 1}:")
        print(textwrap.indent(result.departure, "    "))
    width = max((len(name) for name, _, _ in result.winners), default=0)
    for name, then, now in result.winners:
        if result.departure is None:
            same = (then and then.schedule_key) == (now and now.schedule_key)
            took = seconds_text(then.cost) if then else "nothing ran"
            print(f"  {name:<{width}}  {took:>8}   {'same' if same else 'another'} winner")
    return 0 if result.same else 1


def _log(given: str | None) -> Path:
    name = given or os.environ.get("LOOPWRIGHT_LOG")
    if not name:
        raise UsageError(
            "what is found needs a place: give --log FILE (it may be new), or set LOOPWRIGHT_LOG"
        )
    path = Path(name)
    setting = "--log" if given else "LOOPWRIGHT_LOG"
    if path.is_dir():
        place = path / "tuning.jsonl"
        raise UsageError(f"{setting} {path} is a folder; name a file in it, as {place}")
    problem = problem_of(path)
    if problem is not None:
        raise UsageError(f"{setting} {path} is not a tuning log: {problem}")
    parent = path.parent
    if not parent.exists():
        raise UsageError(f"{setting} {path}: there is no folder {parent}; make it first")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UsageError(f"{setting} {path} cannot be written; name a file that can")
    return path
