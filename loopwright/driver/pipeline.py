"""From a module to machine code: the compiler behind the tracer and other sources of modules.

::

    build     graph passes -> groups -> PrimFuncs -> schedules (log or rules) -> kernels
              -> program -> native entry                                       -> Built

Tuning takes the same way down to the PrimFuncs; see ``tuning/tune.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..autotune.log.decision import taken_options
from ..autotune.log.log_index import log_index
from ..autotune.log.lookup import LogView, own_records, shipped_logs
from ..autotune.record import TargetKey, target_key
from ..autotune.selection.select import Chosen, Origin, choose_schedule
from ..autotune.workload import workload_of
from ..codegen.in_place_rule import elements_read, in_place_rule
from ..codegen.kernel import Kernel
from ..codegen.kernel_interface import is_view
from ..codegen.llvm.engine import disassemble
from ..codegen.lower.lowering import lowered
from ..codegen.machine import known_machine
from ..codegen.program import CompiledProgram, compile_program
from ..codegen.program_from_graph import NewValue, program_from_module
from ..codegen.runtime import pool
from ..codegen.target import Target
from ..config import Config
from ..extras import extra
from ..ir.errors import ScheduleError
from ..ir.graph.choices import Choices
from ..ir.graph.fusion.to_prim import group_to_prim
from ..ir.graph.limits import GraphLimits
from ..ir.graph.nodes import Constant, Function, Module
from ..ir.graph.passes.choose_algorithms import DEFAULT_PREFERENCES, Preferences
from ..ir.graph.passes.round_factors import rounding_text
from ..ir.graph.pipeline import GRAPH, default_pipeline
from ..ir.graph.printer import as_text
from ..ir.graph.walk import called_by, nested_blocks
from ..ir.loop.causal_mask import causal_offset
from ..ir.loop.nest import Store, statements
from ..ir.loop.prim import PrimFunc
from ..ir.loop.simplify_prim import canonical_names, names_by_place
from ..ir.loop.verify import verify_nest, verify_prim
from ..ir.pass_context import PassContext
from ..ir.program.analysis import calls, places, scopes, walk
from ..ir.program.nodes import Call as ProgramCall
from ..ir.program.nodes import Program
from ..ir.program.pipeline import optimise
from ..ir.progress_line import report
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.cases import Cases
from ..ir.schedule.steps import Schedule
from .built import Built, Parts, Source
from .kernels import begin_kernel, checked_kernels
from .options import Precision, error_growth, session_log

KernelMemo: TypeAlias = dict[Any, PrimFunc]

WEIGHTS_RATE = 0.7
"""Rate at which weights come from memory during a product, over that of plain reads."""


def lower_module(
    module: Module,
    preferences: Preferences = DEFAULT_PREFERENCES,
    choices: Choices | None = None,
    passes: PassContext | None = None,
) -> Module:
    """Returns ``module`` with operators grouped into kernels (the passes of ``default_pipeline``).

    Where ``passes`` verifies, InternalError names the pass after which the module is malformed.
    """
    context = passes or PassContext()
    choices = None if preferences.limits == LIMITS_OF_ALL else choices
    return context.run(module, default_pipeline(preferences, choices), GRAPH)


LIMITS_OF_ALL = GraphLimits(
    lanes=8, longest_lone_row=1 << 18, softmax_piece=0, attention_rows=1 << 62, scan_pieces=False
)
"""The machine as passes see it where results are to be the same on all."""


def target_of(target: Target | None, precision: Precision | None) -> Target:
    """Returns the target to make code for, this machine unless given."""
    target = target or Target.host()
    return replace(target, sums=extra("sum_order")()) if precision == "reproducible" else target


def preferences_of(precision: Precision | None, target: Target) -> Preferences:
    """Returns what decides between algorithms on a target."""
    named = precision is None or isinstance(precision, str)
    machine = known_machine(target)
    weights = WEIGHTS_RATE * machine.bandwidth("dram") / 4  # elements per second
    fetch = machine.peak_flops() / 2 / weights
    pairs = target.dot("bf16") is not None
    dots = {"int8": target.has_dots or target.has_tiles, "int16": target.dot("madd") is not None}
    factor = next((dtype for dtype, able in dots.items() if able), "")
    limits = GraphLimits.of_caches(
        target.l1, target.l2, target.lanes(4), fetch, pairs, factor, target.permute is not None
    )
    limits = LIMITS_OF_ALL if precision == "reproducible" else limits
    return Preferences(error_growth(precision), named, precision == "bf16", limits)


def kernels_of(module: Module, memo: KernelMemo | None = None) -> dict[str, PrimFunc]:
    """Returns the PrimFunc of every group that a lowered module calls, by the group's name: in
    main and the functions it reaches, in branches and loops as well.

    With a ``memo``, one of an equal group of the same name that was met before. A PrimFunc of the
    module itself gets canonical names, as those made of groups have.
    """
    prims: dict[str, PrimFunc] = {}
    for name, (constant, causal) in known_operands(module).items():
        group = module.functions[name]
        if isinstance(group, PrimFunc):
            params = tuple(replace(p, constant=n in constant) for n, p in enumerate(group.params))
            prims[name] = canonical_names(replace(group, name=name, params=params))
        elif group.attrs.get("primitive") and not is_view(group):
            prims[name] = _prim_of(name, group, constant, causal, memo)
    return prims


def own_schedules(module: Module) -> dict[str, Schedule]:
    """Returns the schedules that a module's PrimFuncs were written with, in canonical names.

    Raises ScheduleError for one that is illegal.
    """
    schedules: dict[str, Schedule] = {}
    for name, schedule in module.schedules.items():
        prim = module.functions.get(name)
        if not isinstance(prim, PrimFunc):
            continue  # nothing calls it, and it was removed
        axes, buffers = names_by_place(prim)
        both = sorted(axes.keys() & buffers.keys())
        if both:
            raise ScheduleError(f"@{name}: {both[0]} is an axis and a buffer; rename one of them")
        try:
            apply_schedule(prim, schedule)
        except ScheduleError as error:
            raise ScheduleError(f"the schedule of @{name} is illegal: {error.message}") from error
        schedules[name] = schedule.renamed({**axes, **buffers})
    return schedules


def _has_control_flow(lowered: Module) -> bool:
    """True if a lowered module has branches, loops or functions that stay functions."""
    if any(nested_blocks(b.value) for b in lowered.main.body.bindings):
        return True
    called = (lowered.functions[name] for name, _ in called_by(lowered))
    return any(isinstance(f, Function) and not f.attrs.get("primitive") for f in called)


def known_operands(module: Module) -> dict[str, tuple[set[int], dict[int, int]]]:
    """Returns, for everything that main and the functions it reaches call, the positions of
    operands that are constants in all calls, and those that hold the same triangular mask in all,
    with its offset."""
    constant: dict[str, set[int]] = {}
    masks: dict[str, dict[int, int | None]] = {}
    for name, call in called_by(module):
        positions = {n for n, a in enumerate(call.args) if isinstance(a, Constant)}
        constant[name] = positions & constant[name] if name in constant else positions
        mine = masks.setdefault(name, {})
        for n, a in enumerate(call.args):
            offset = causal_offset(a.value) if isinstance(a, Constant) else None
            mine[n] = offset if mine.get(n, offset) == offset else None
    return {
        name: (positions, {n: offset for n, offset in masks[name].items() if offset is not None})
        for name, positions in constant.items()
    }


def _prim_of(
    name: str, group: Function, constant: set[int], causal: dict[int, int], memo: KernelMemo | None
) -> PrimFunc:
    if memo is None:
        return group_to_prim(name, group, constant, causal)
    key = (name, as_text(group, spans=False), frozenset(constant), frozenset(causal.items()))
    prim = memo.get(key)
    if prim is None:
        prim = memo[key] = group_to_prim(name, group, constant, causal)
    return prim


def called_kernels(lowered: Module, memo: KernelMemo | None = None) -> list[PrimFunc]:
    """Returns the kernel of every call in a lowered module, one entry per place of a call."""
    prims = kernels_of(lowered, memo)
    return [prims[name] for name, _ in called_by(lowered) if name in prims]


def build(
    module: Module,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
    passes: PassContext | None = None,
    taken: Mapping[str, str] | None = None,
    schedules: Mapping[str, Chosen] | None = None,
    check: bool | None = None,
    measure: str | None = None,
    updates: Sequence[NewValue] = (),
) -> Built:
    """Returns ``module`` as machine code, with the schedules that the logs or the rules give.

    The code of a schedule that is not the rules' is checked before its first use here, with
    ``check`` (``LOOPWRIGHT_CHECK``) that of all; see ``autotune/measure/first_use.py``. Unless
    ``measure`` (``LOOPWRIGHT_MEASURE``) is "never", schedules of near shapes and other machines are
    raced with the default ones. ``passes`` says how passes run, over the graph and the program.

    ``taken`` are the choices in the graph, by site, instead of those in the logs; ``schedules`` by
    workload go before all others. ``updates`` says which results are new values of parameters; see
    ``Built.update``.
    Raises UnsupportedError for what cannot be compiled yet.
    """
    target = target_of(target, precision)
    user_log = log or session_log()
    logs = [log_index(user_log), *shipped_logs()]
    used = threads or pool.get_threads()
    key = target_key(target, used)
    if taken is None:
        taken = logged_choices(logs, key)
    preferences = preferences_of(precision, target)
    passes = passes or PassContext()
    quiet = passes.quiet()

    def lower(module: Module, context: PassContext = quiet) -> Module:
        choices = Choices(taken) if taken else None
        return lower_module(module, preferences, choices, context)

    lowered = lower(module, passes)
    prims = kernels_of(lowered)
    chosen: dict[str, Chosen] = {}
    by_workload: dict[str, Chosen] = dict(schedules or {})
    own_schedule = own_schedules(lowered)
    config = Config.read()
    races = (measure or config.measure) != "never"
    inline = _has_control_flow(lowered)
    for number, (name, prim) in enumerate(prims.items()):
        report(number, len(prims), "kernels")
        workload = workload_of(prim).hash
        if workload not in by_workload:
            schedule = own_schedule.get(name)
            if schedule is not None and not own_records(logs[:1], workload, key):
                by_workload[workload] = Chosen(schedule, Origin.GIVEN, "given")
            else:
                by_workload[workload] = choose_schedule(prim, target, used, logs, (), races)
            # LLVM works on this kernel while a schedule for the next is chosen.
            begin_kernel(prim, by_workload[workload], target, inline)
        chosen[name] = by_workload[workload]
    check = config.check if check is None else check
    source = Source(
        module,
        lowered,
        prims,
        target,
        threads,
        log,
        logs,
        lower,
        preferences,
        quiet,
        check,
        updates=updates,
    )
    return _assembled(source, chosen, passes)


def rebuilt(built: Built, chosen: Mapping[str, Chosen]) -> Built:
    """Returns the program with other schedules for some of its workloads, given by their hash."""
    source = built.source
    assert source is not None and source.whole
    hashes = {name: workload_of(prim).hash for name, prim in source.prims.items()}
    schedules = {name: chosen.get(hashes[name], old) for name, old in built.chosen.items()}
    return _assembled(source, schedules, source.passes)


def _assembled(source: Source, chosen: Mapping[str, Chosen], passes: PassContext) -> Built:
    """Returns the kernels for the schedules, a program that calls them, and its native entry."""
    prims, target = source.prims, source.target
    used = source.threads or pool.get_threads()
    kernels, chosen = checked_kernels(prims, chosen, target, used, source.logs, source.check)
    if passes.verify:
        for name, prim in prims.items():
            verify_prim(prim)
            verify_nest(kernels[name].nest)
            extra("validate")(prim, kernels[name], target, passes.verify > 1)
    program = program_from_module(source.lowered, kernels, source.updates)
    program = optimise(
        program,
        in_place_rule(prims),
        elements_read(prims),
        passes,
        lambda call: kernels[call.kernel].parallel,
    )
    streaming = _streaming_updates(program, kernels)
    if streaming:
        chosen = {**chosen, **{name: _without_streams(chosen[name]) for name in streaming}}
        return _assembled(source, chosen, passes)
    compiled = compile_program(program, kernels, target, source.threads)
    return Built(
        compiled.executable,
        compiled.executable.call,
        tuple(kernels),
        partial(_summary, chosen, source),
        _levels(kernels, compiled),
        compiled.code_hash,
        chosen,
        Parts(prims, kernels, compiled.program, target, used, tuple(source.logs)),
        source,
        compiled.executable.inputs,
        compiled.updating.call if compiled.updating is not None else None,
    )


def _streaming_updates(program: Program, kernels: Mapping[str, Kernel]) -> set[str]:
    """Returns the kernels that write arguments by non-temporal stores. Such stores have to be
    aligned, which the caller's arrays need not be; and the argument's lines are in the cache."""
    direct = {u.source for u in program.updates if u.in_place}
    streaming: set[str] = set()
    for scope in scopes(program) if direct else ():
        where = places(scope)
        if scope is not program:  # what a function writes may be an argument of the program
            direct = {*scope.results}
        for call in walk(scope.body):
            written = call.operands if isinstance(call, ProgramCall) else ()
            if any(o.access.writes and where[o.name].root in direct for o in written):
                assert isinstance(call, ProgramCall)
                stores = statements(kernels[call.kernel].nest.body)
                if any(isinstance(s, Store) and s.stream for s in stores):
                    streaming.add(call.kernel)
    return streaming


def _without_streams(chosen: Chosen) -> Chosen:
    def without(schedule: Schedule) -> Schedule:
        return Schedule(tuple(step for step in schedule.steps if step.name != "stream"))

    if isinstance(chosen.schedule, Cases):
        return replace(chosen, schedule=chosen.schedule.each(without))
    return replace(chosen, schedule=without(chosen.schedule))


def logged_choices(logs: Sequence[LogView], key: TargetKey) -> dict[str, str]:
    """Returns the logged choices in graphs on a target; the first log has precedence."""
    return taken_options((d for log in reversed(logs) for d in log.choices()), key)


def _summary(chosen: Mapping[str, Chosen], source: Source) -> str:
    counts = Counter(c.origin for c in chosen.values())
    parts = [f"{counts[origin]} {origin.text}" for origin in Origin if counts[origin]]
    plural = "" if len(chosen) == 1 else "s"
    text = f"{len(chosen)} kernel{plural}" + (f": {', '.join(parts)}" if parts else "")
    if counts[Origin.RULES] or counts[Origin.NEAR]:
        text += "; f.tune(...) or `loopwright tune` may make them faster"
        text += "" if source.log is not None else " (give log= to keep what it finds)"
    gains = sorted(c.gain for c in chosen.values() if c.gain > 1)
    if gains:
        text += f"; fitted ones at {gains[0]:.2f} to {gains[-1]:.2f}x the default's speed"
    reasons = [reason for c in chosen.values() for reason in c.refused]
    if reasons:
        plural = "" if len(reasons) == 1 else "s"
        text += f"; {len(reasons)} schedule{plural} refused: {reasons[0]}"
        text += ", ..." if len(reasons) > 1 else ""
    passed = Counter(reason for c in chosen.values() for reason in c.passed)
    if passed:
        why = (f"{reason} ({n} times)" if n > 1 else reason for reason, n in passed.items())
        text += f"; passed over: {', '.join(why)}"
    rounds = source.preferences.rounds_factors
    return f"{text}; {rounding_text(source.lowered)}" if rounds else text


def _graph_functions(module: Module) -> Module:
    functions = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
    return module.with_functions(functions)


def _assembly(source: Source, kernels: Mapping[str, Kernel], compiled: CompiledProgram) -> str:
    """Returns the assembly of the kernels, and of an entry that has some of them inside."""
    inline = {call.kernel for call in calls(compiled.program) if call.inline}
    texts = [kernel.text for name, kernel in kernels.items() if name not in inline]
    if inline:
        texts.append(compiled.entry_text)
    return "\n".join(disassemble(text, source.target) for text in texts)


def _levels(
    kernels: Mapping[str, Kernel], compiled: CompiledProgram
) -> dict[str, Callable[[Source], str]]:
    def each(text: Callable[[str], str]) -> str:
        return "\n".join(text(name) for name in kernels)

    return {
        "graph": lambda source: as_text(source.module),
        "kernels": lambda source: (
            as_text(_graph_functions(source.lowered)) + "\n" + each(lambda n: str(source.prims[n]))
        ),
        "loops": lambda _: each(lambda n: str(replace(kernels[n].nest, name=n))),
        "vector": lambda source: each(
            lambda n: str(replace(lowered(kernels[n].nest, source.target), name=n))
        ),
        "program": lambda _: str(compiled.program),
        "llvm": lambda _: each(lambda n: kernels[n].text) + "\n" + compiled.entry_text,
        "asm": lambda source: _assembly(source, kernels, compiled),
    }
