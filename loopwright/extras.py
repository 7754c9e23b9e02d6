"""Extras: parts that compiling, running and tuning a function can do without.

No other module imports one: the core asks for an entry of the table below by name, and the commands
import those that they are made of. So an extra may be changed without reading the rest.

::

    at_most      functions that fail if their calls take longer
    background   tuning in a process beside the running program
    (compile_files) a page about one compile, and files of its levels
    cost         arithmetic, bytes and memory of each line, by its loops
    elsewhere    tuning on the workers of a Dask cluster
    error_bound  how far results may lie from exact ones
    explain      what bounds the kernels of a call
    float_errors operations that are looked at, under np.errstate
    fresh        builds compared in processes of their own
    hints        what to write instead, for errors that do not say so
    as_function  modules with data types, functions as values and references, made plain
    (notebook)   what notebooks show: of functions, of their code, and while they are tuned
    memory       what memory a call takes
    profile      the time of every kernel call
    repro        a small program that shows a failure of the compiler
    validate     the nest in vectors of a kernel, and its LLVM text, run by interpreters
    rewrite      a statement with control flow on traced values, for the hint of an error
    save, bundle compiled functions as files, which ``lw.load`` reads; as objects for C
    streams      calls that run at the same time
    sum_order    the order of sums that reproducible results ask of schedules
    watch        writes to captured arrays, seen by the system; without it they are summed
    (commands)   the command line: debugging, reports, the roofline's picture, tools for logs
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ENTRIES = {
    "as_function": (".tracer.language.run", "as_function"),
    "at_most": (".contracts", "at_most"),
    "background": (".background.tuning", "BackgroundTuning"),
    "bundle": (".doors.bundle", "bundle"),
    "compile_files": (".inspect.compile_page", "write_files"),
    "cost": (".inspect.cost", "cost_of"),
    "elsewhere": (".tuning.elsewhere", "tune_elsewhere"),
    "error_bound": (".debug.error_bounds", "bounds_of"),
    "explain": (".inspect.explain", "explain"),
    "float_errors": (".debug.float_errors", "look_at"),
    "fresh": (".tuning.fresh", "fresh_calls"),
    "function_html": (".inspect.notebook", "function_html"),
    "hints": (".debug.hints", "hinted"),
    "lowered_html": (".inspect.notebook", "lowered_html"),
    "memory": (".inspect.memory", "memory_of"),
    "notebook_progress": (".inspect.notebook", "NotebookProgress"),
    "profile": (".inspect.profile", "profile"),
    "repro": (".debug.write", "failed"),
    "validate": (".debug.machine.kernels", "validate"),
    "rewrite": (".tracer.rewriting.expressions", "statement_in"),
    "save": (".doors.saved", "save"),
    "streams": (".streams", "streams_of"),
    "sum_order": (".codegen.sum_order", "Reproducible"),
    "watch": (".codegen.runtime.written_pages", "watch"),
    "watched": (".codegen.runtime.written_pages", "watched"),
}
"""The extras: name -> the module that has it, and its name there."""


def extra(name: str) -> Any:
    """Returns an entry of an extra, which is imported now."""
    path, inside = _ENTRIES[name]
    return getattr(import_module(path, __package__), inside)
