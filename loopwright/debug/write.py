"""Writes repros: of a compile that failed inside, and on request for wrong or slow code.

::

    failed        the program that could not be compiled -> smaller ones that fail alike -> a file
    write_repro   the same for a function of the user's, and for wrong results and slow code

A failure that comes without what logs said is shown without it; else schedules are kept by the hash
of their workload, so that smaller programs fail alike only while the kernel in question is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..autotune.log.log_index import log_index
from ..autotune.log.lookup import shipped_logs
from ..autotune.record import target_key
from ..autotune.selection.select import Chosen, Origin, choose_schedule
from ..autotune.workload import workload_of
from ..codegen.runtime import pool
from ..codegen.target import Target
from ..config import Config
from ..driver.pipeline import build, kernels_of, logged_choices, lower_module, preferences_of
from ..ir.dims import as_int
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.choices import Choices
from ..ir.graph.nodes import Function, Module
from ..ir.graph.walk import count_bindings
from ..ir.pass_context import PassContext
from ..ir.schedule.steps import Schedule
from .compare import as_compiled, compare_build
from .minimise import anonymous, minimised, random_values
from .repro import Repro, failure_of, median_seconds, repro_of, schedules_of

REPRO_SECONDS = 10.0
"""Time to spend on making a program smaller, beyond the one attempt that is under way."""
MOST_OPERATIONS = 5000
"""Operations up to which a program is built again: each attempt may take seconds."""
_Logged = tuple[Mapping[str, str], Mapping[str, Any]]


def failed(error: Exception, module: Module, options: Mapping[str, Any], seconds: float) -> Repro:
    """Returns a small program for which ``build(module, **options)`` fails as it did with
    ``error``.

    LoopwrightValueError if even the whole program does not do so again, and for one that is too
    large to be built many times.
    """
    count = sum(count_bindings(f) for f in module.functions.values() if isinstance(f, Function))
    if count > MOST_OPERATIONS:
        raise LoopwrightValueError(f"{count} operations are too many to be made fewer of")
    made_for = _made_for(options)
    target, threads, precision = made_for
    wanted, passes = failure_of(error), _passes(options)
    words = str(error).split("\n", 1)[0]

    def failing(logged: _Logged) -> Callable[[Module], bool]:
        chosen = {h: Chosen(s, Origin.EXACT, "repro") for h, s in logged[1].items()}

        def fails(tried: Module) -> bool:
            try:
                build(
                    tried,
                    target=target,
                    threads=threads,
                    precision=precision,
                    passes=passes,
                    taken=dict(logged[0]),
                    schedules=chosen,
                )
            except Exception as again:
                return failure_of(again) == wanted
            return False

        return fails

    logged: _Logged = ({}, {})
    start = next(filter(failing(logged), (anonymous(module), module)), None)
    if start is None:  # it is what logs said
        logged = _logged(module, options, made_for)
        start = next(filter(failing(logged), (anonymous(module), module)), None)
    if start is None:
        raise LoopwrightValueError("the same program did not fail a second time")
    small = minimised(start, failing(logged), seconds)
    steps = {h: s.to_json() for h, s in logged[1].items()}
    return repro_of("compile", (wanted, words), small, made_for, (logged[0], steps), passes=passes)


def _made_for(options: Mapping[str, Any]) -> tuple[Target, int, Any]:
    target: Target = options.get("target") or Target.host()
    return target, options.get("threads") or pool.get_threads(), options.get("precision")


def _passes(options: Mapping[str, Any]) -> PassContext:
    given: PassContext | None = options.get("passes")
    return (given or PassContext()).quiet()


def _logged(
    module: Module, options: Mapping[str, Any], made_for: tuple[Target, int, Any]
) -> _Logged:
    """Returns the choices and schedules that logs have for a module; none where that fails."""
    target, threads, precision = made_for
    log: Path | None = options.get("log")
    logs = [*([] if log is None else [log_index(log)]), *shipped_logs()]
    taken = logged_choices(logs, target_key(target, threads))
    try:
        choices = Choices(taken) if taken else None
        preferences = preferences_of(precision, target)
        lowered = lower_module(module, preferences, choices, _passes(options))
        prims = kernels_of(lowered).values()
        chosen = {workload_of(p).hash: choose_schedule(p, target, threads, logs) for p in prims}
    except Exception:
        return taken, {}
    return taken, {h: c.schedule for h, c in chosen.items()}


def write_repro(
    function: Callable[..., Any],
    *args: Any,
    path: str | Path,
    values: bool = False,
    seconds: float = REPRO_SECONDS,
    **kwargs: Any,
) -> Path:
    """Writes a Python file that shows what is wrong with a function, without the function.

    What it shows is found out: that it cannot be compiled; else that its results are wrong (see
    ``compare``); else what time a call takes. Programs that fail or are wrong are made smaller for
    up to ``seconds``. The file holds IR text, versions and the machine; arrays in it are random,
    unless ``values`` are to be kept. Raises LoopwrightValueError where results are wrong with these
    values only.

    >>> import tempfile
    >>> import numpy as np, loopwright as lw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = lw.debug.write_repro(np.tanh, np.ones(8, np.float32), path=f"{folder}/slow.py")
    ...     "tanh(%x0)" in path.read_text()
    True
    """
    compiled, args = as_compiled(function, args, "write_repro")
    traced = compiled.trace(*args, **kwargs)
    config = Config.read()
    options = compiled.build_options(config)
    made_for = _made_for(options)
    try:
        lowered, arrays = compiled.in_use(*args, **kwargs)
    except LoopwrightTypeError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        return failed(cause, traced.module, options, seconds).write(Path(path))
    built = lowered.built
    taken = _logged(traced.module, options, made_for)[0]
    logged = (taken, schedules_of(built))
    comparison = compare_build(traced.name, built, arrays)
    if not comparison.differs:
        took = median_seconds(built, arrays)
        module = traced.module if values else anonymous(traced.module)
        words = f"{took * 1e6:.4g} us a call"
        given = arrays if values else None
        return repro_of("time", ("time", words), module, made_for, logged, given).write(Path(path))
    what = comparison.finding.what if comparison.finding is not None else ""
    if values:
        repro = repro_of("results", ("results", what), traced.module, made_for, logged, arrays)
        return repro.write(Path(path))
    small = _wrong_with_random_values(traced.module, made_for, logged, seconds)
    if small is None:
        raise LoopwrightValueError(
            f"{traced.name} gives wrong results, but not for random values of its arrays",
            hint="values=True, which writes those that were given into the file",
        )
    return repro_of("results", ("results", what), small, made_for, logged).write(Path(path))


def _wrong_with_random_values(
    module: Module, made_for: tuple[Target, int, Any], logged: _Logged, seconds: float
) -> Module | None:
    target, threads, precision = made_for
    chosen = {h: Chosen(Schedule.from_json(s), Origin.EXACT, "repro") for h, s in logged[1].items()}

    def wrong(tried: Module) -> bool:
        try:
            built = build(
                tried,
                target=target,
                threads=threads,
                precision=precision,
                taken=dict(logged[0]),
                schedules=chosen,
            )
            given = [
                random_values(tuple(map(as_int, s.shape)), s.dtype, n)
                for n, s in enumerate(built.inputs)
            ]
            return compare_build("repro", built, given).differs
        except Exception:
            return False

    start = anonymous(module)
    return minimised(start, wrong, seconds) if wrong(start) else None
