"""Reports of one compile: on stderr, and as files in the dump folder."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from ..config import Config
from ..extras import extra
from ..ir.pass_context import PassContext
from ..ir.progress_line import log
from .ready import Specialisation

LARGE_SUMS = 16_000_000
"""Bytes of captured arrays from which on it is said what it takes to watch them."""


def dump_prefix(name: str, config: Config) -> Path | None:
    """Returns the common prefix of the paths of a compile's dumped files; None if none are written.

    Compiles are numbered: the prefix is the folder's next number and the function's name.
    """
    if config.dump is None:
        return None
    config.dump.mkdir(parents=True, exist_ok=True)
    number = len({p.name.partition("-")[0] for p in config.dump.iterdir()})
    return config.dump / f"{number:03}-{name}"


def pass_context(context: PassContext, config: Config, dump: Path | None = None) -> PassContext:
    """Returns a function's pass context with the verification and dumps that settings ask for."""
    folder = None if dump is None else dump.with_name(f"{dump.name}-passes")
    return replace(context, verify=context.verify or config.verify, dump=context.dump or folder)


def announce(
    name: str,
    made: Specialisation,
    config: Config,
    dump: Path | None = None,
    first_symbolic: bool = False,
) -> None:
    """Writes to stderr what the settings ask for, and the reason of a function's ``first_symbolic``
    compile; every level to files that begin with ``dump``."""
    if first_symbolic:
        sys.stderr.write(f"loopwright: {name}: {made.reason}\n")
    guard = made.guard
    if guard is not None and guard.summed_bytes >= LARGE_SUMS:
        from ..text import bytes_text  # loaded when it is first needed

        begun = time.perf_counter()
        guard.holds()
        took = (time.perf_counter() - begun) * 1e3
        sys.stderr.write(
            f"loopwright: {name}: each call sums {bytes_text(guard.summed_bytes)} of captured "
            f"arrays, to see whether they have changed: {took:.1f} ms. Pass them as arguments, or "
            "make them read-only (w.flags.writeable = False)\n"
        )
    text = f"{name}({made.traced.request}) compiled in {made.seconds:.2f} s"
    log("compile", "%s: %s", text, made.reason)
    if config.debug >= 1:
        summary = made.built.summary
        sys.stderr.write(f"loopwright: {text}{': ' + summary if summary else ''}\n")
    for loop in made.traced.loops if config.explain else ():
        sys.stderr.write(f"loopwright: {name}: {loop}\n")
    names = {2: "graph", 3: "loops", 4: "llvm", 5: "asm"}
    for level, text in names.items():
        if config.debug >= level and text in made.built.levels:
            sys.stderr.write(made.built.as_text(text) + "\n")
    if dump is not None or config.trace is not None:
        extra("compile_files")(name, made, dump, config.trace)
