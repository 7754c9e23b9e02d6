"""Cases run in child processes, so that one that crashes or hangs is one failed case.

A fuzzer is a script that calls ``run_script``. With ``--child A:B`` it runs those cases, and prints
``case N`` before each (with what the case prints, indented), and ``wrong N`` behind one that fails;
without it, it has children run them.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["run_isolated", "run_script"]


def run_isolated(
    script: Path, low: int, high: int, *options: str, seconds: float = 600
) -> list[str]:
    """What is wrong with the cases from ``low`` up to ``high``, one text each."""
    found: list[str] = []
    while low < high:
        command = [sys.executable, str(script), "--child", f"{low}:{high}", *options]
        text, ended = _output(command, seconds)
        cases = re.split(r"^(?=case )", text, flags=re.MULTILINE)[1:]
        found += [case for case in cases if "\nwrong: " in case]
        if not ended:
            break
        last = int(cases[-1].split()[1]) if cases else high
        found.append((cases[-1] if cases else "") + ended)
        low = last + 1
    return found


def _output(command: Sequence[str], seconds: float) -> tuple[str, str]:
    """What a process printed, and how it failed (nothing: it did not)."""
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        return text.decode() if isinstance(text, bytes) else text, f"no end in {seconds} s"
    if done.returncode < 0:
        return done.stdout, f"died of {signal.Signals(-done.returncode).name}\n{done.stderr[:400]}"
    return done.stdout, f"exit {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else ""


def run_script(script: Path, run: Callable[[int, str, bool], str], levels: Sequence[str]) -> None:
    """The command line of a fuzzer; ``run(seed, isa, schedules)`` says what is wrong. Unless
    ``--isa`` names one, the levels take turns: another seed finds more than another level."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--schedules", action="store_true", help="sampled, not the default ones")
    parser.add_argument("--isa", choices=levels)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    low, high = map(int, (given.child or given.seeds).split(":"))
    if given.child:
        for seed in range(low, high):
            isa = given.isa or levels[seed % len(levels)]
            print(f"case {seed} {isa}", flush=True)
            found = run(seed, isa, given.schedules)
            if found:
                print(f"wrong: {found}", flush=True)
        return
    begun, wrong = time.perf_counter(), 0
    options = ["--schedules"] * given.schedules + (["--isa", given.isa] if given.isa else [])
    for start in range(low, high, 100):
        for text in run_isolated(script, start, min(start + 100, high), *options):
            wrong += 1
            print(text, flush=True)
    took = time.perf_counter() - begun
    print(f"{high - low} cases on {given.isa or ', '.join(levels)}: {wrong} wrong, {took:.0f} s")
