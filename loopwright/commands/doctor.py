"""``loopwright doctor``: what this machine is and can do, and whether everything is in place."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..autotune.log.log_file import problem_of
from ..autotune.log.lookup import shipped_logs
from ..autotune.log.tuning_log import TuningLog
from ..autotune.logtool import tools as logtool
from ..autotune.model.cost_model import has_xgboost
from ..autotune.model.shipped import shipped_model
from ..codegen.llvm.engine import llvm_version
from ..codegen.llvm.settings import cache_folder
from ..codegen.machine import LEVELS, MachineModel, measured_machine
from ..codegen.target import X86_LEVELS, Target
from ..text import bytes_text, rate_text, table

_NEEDED = ("numpy", "llvmlite", "tqdm")
_OPTIONAL = ("xgboost", "scikit-learn", "onnxruntime", "openvino", "torch", "jax", "distributed")
_LINEAR = "; without xgboost a linear model ranks candidates instead (pip install xgboost-cpu)"

_PROGRAM = """
import loopwright, numpy
x = numpy.linspace(-1, 1, 37 * 64, dtype=numpy.float32).reshape(37, 64)
f = lambda x: numpy.exp(numpy.maximum(x @ x.T, 0)).sum(axis=0)
numpy.testing.assert_allclose(loopwright.compile(f)(x), f(x), rtol=1e-4)
"""

HELP = "what this machine is, what it can do, and what is wrong with the installation"
DESCRIPTION = "Show ISA, caches, measured peak and bandwidth, versions, and tuning logs."
EXAMPLES = """\
examples:
  loopwright doctor             everything on one screen; exit code 1 if something is wrong
  loopwright doctor --fresh     measure the machine again, on a quiet moment
  loopwright doctor --json      the same for programs

The peaks are what "% of peak" means elsewhere: independent fused multiply-adds in registers, and
reads and triads (a = b + s * c) of buffers that fit each level of the memory hierarchy.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``doctor``."""
    parser.add_argument("--fresh", action="store_true", help="measure again (about eight seconds)")
    parser.add_argument(
        "--isa",
        choices=X86_LEVELS,
        help="measure with the instructions of this level only",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    target = Target.host()
    if args.isa:
        target = target.with_isa(args.isa)
    model = measured_machine(target, fresh=args.fresh)
    versions = _versions((*_NEEDED, *_OPTIONAL))
    shipped = shipped_model()
    problems = [*_missing(versions), *_works(), *_busy(model), *_folders(), *_log_problems()]
    if shipped.model is None:
        problems.append(f"{shipped}; `python -m tools.train` makes one")
    if args.json:
        report = {
            "target": asdict(target),
            "machine": asdict(model),
            "versions": versions,
            "model": str(shipped),
            "problems": problems,
        }
        print(json.dumps(report, indent=1))
        return 1 if problems else 0
    print(_machine_text(target, model))
    print(_versions_text(versions))
    print(f"model     {shipped}{'' if has_xgboost() else _LINEAR}")
    print(_logs_text())
    print("\n".join(f"PROBLEM  {p}" for p in problems) or "everything is in place")
    return 1 if problems else 0


def _machine_text(target: Target, model: MachineModel) -> str:
    level = target.level
    extras = [word for word, there in (("FMA", level.fma), ("masks", level.masks)) if there]
    n = model.threads
    rows = [
        _row("float32 peak", model.peak_flops_1, model.peak_flops_n, "FLOP/s"),
        _row("float64 peak", model.peak_flops64_1, model.peak_flops64_n, "FLOP/s"),
    ]
    for name in LEVELS:
        read = (model.bandwidth_1[name], model.bandwidth_n[name])
        rows.append(_row(f"{name.upper()} read", *read, "B/s"))
        rows.append(_row(f"{name.upper()} triad", model.triad_1[name], model.triad_n[name], "B/s"))
    how = "measured" if model.measured else "estimated"
    head = (how, "1 thread", f"{n} threads" if n != 1 else "all threads")
    return "\n".join(
        (
            f"machine   {target.cpu}, {target.cores} cores",
            f"isa       {target.isa}: vectors of {level.vector_bytes} bytes, "
            f"{level.vector_registers} registers{''.join(', ' + e for e in extras)}",
            f"caches    L1 {bytes_text(target.l1)}, L2 {bytes_text(target.l2)} per core, "
            f"L3 {bytes_text(target.l3)} shared{_seen(target, model)}",
            *("  " + line for line in table(head, rows).splitlines()),
        )
    )


def _seen(target: Target, model: MachineModel) -> str:
    seen = model.seen_by(target).l3
    return "" if seen == target.l3 else f", of which one thread here has about {bytes_text(seen)}"


def _busy(model: MachineModel) -> Iterator[str]:
    if model.is_doubtful:
        yield (
            f"others used {model.contention:.0%} of the cores when this machine was measured, so "
            "its figures may be too low; they are measured again by and by, or now with --fresh"
        )


def _row(name: str, one: float, many: float, unit: str) -> tuple[str, str, str]:
    return name, rate_text(one, unit), rate_text(many, unit)


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    versions = {"loopwright": _version_of("loopwright"), "python": platform.python_version()}
    for name in names:
        versions[name] = _version_of(name)
    versions["llvm"] = llvm_version()
    return versions


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _versions_text(versions: dict[str, str]) -> str:
    there = ", ".join(f"{name} {v}" for name, v in versions.items() if v)
    missing = ", ".join(name for name in _OPTIONAL if not versions[name])
    return f"versions  {there}\noptional  not installed: {missing or 'nothing'}"


def _missing(versions: dict[str, str]) -> Iterator[str]:
    for name in _NEEDED:
        if not versions[name]:
            yield f"{name} is not installed; pip install {name}"


def _works() -> Iterator[str]:
    """Compiles and runs a program of a few kernels in another process, which may crash. That
    process uses no log of the user: the log is checked separately."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "LOOPWRIGHT_LOG": ""},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else "an error"
        yield f"compiling and running a small program ends with {how}: {last[:200]}"


def _folders() -> Iterator[str]:
    folder = cache_folder()
    if not _writable(folder):
        yield (
            f"{folder} cannot be written, so the machine is measured anew in every process; "
            "set LOOPWRIGHT_CACHE to a folder that can"
        )
    log = os.environ.get("LOOPWRIGHT_LOG")
    problem = problem_of(Path(log)) if log else None
    if problem:
        yield f"LOOPWRIGHT_LOG={log} is not a tuning log: {problem}"
    elif log and not _writable(Path(log)):
        yield f"LOOPWRIGHT_LOG={log} cannot be written; tuning will not be remembered there"


def _writable(path: Path) -> bool:
    """True if a path exists and is writable, or could be created."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK)


def _users_log() -> Path | None:
    name = os.environ.get("LOOPWRIGHT_LOG")
    return Path(name) if name and Path(name).is_file() else None


def _log_problems() -> Iterator[str]:
    log_file = _users_log()
    report = logtool.verify(log_file) if log_file else None
    if report is not None and not report.ok:
        yield (
            f"{log_file}: {len(report.problems)} lines are not used or look wrong; "
            f"`loopwright log verify {log_file}` names them, `log prune` drops them"
        )
    # What ships is trimmed to what guesses need: it counts as whole if every line can be read.
    for log in shipped_logs():
        if lost := logtool.verify(log.path).skipped.total:
            yield f"{log.path}: {lost} lines cannot be read; install loopwright again"
    if shipped_model().model is None:
        yield f"{shipped_model()}: searches begin without what it learnt"


def _logs_text() -> str:
    log_file = _users_log()
    if log_file is None:
        first = "none yet: `loopwright tune ... --log FILE` makes one"
    else:
        first = f"{log_file}: {logtool.verify(log_file).good} good records"
    shipped = sum(len(TuningLog(log.path)) for log in shipped_logs())
    return f"log       {first}\nshipped   {shipped} records of kernels, {shipped_model()}"
