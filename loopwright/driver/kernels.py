"""The kernels of a build: compiled once per process, and checked before their first use here.

::

    schedule -> code -> trusted, or checked (autotune/measure/first_use.py)       -> Kernel
                     -> refused: the next best schedule, and in the end the plain loops
    several schedules that nobody measured here -> those that are right, raced -> the fastest
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..autotune.log.lookup import LogView
from ..autotune.measure.first_race import race
from ..autotune.measure.first_use import Subject, can_try, refusals
from ..autotune.ranges import checked_points, specialised
from ..autotune.selection.default_cases import default_cases
from ..autotune.selection.select import SELECTION, Chosen, Origin, choose_schedule
from ..autotune.space.space import plain_schedule
from ..autotune.workload import kernel_symbol, workload_at, workload_of
from ..codegen.inlining import inlined_lines
from ..codegen.kernel import Kernel, compile_kernel, stored_kernel
from ..codegen.llvm.settings import cache_folder
from ..codegen.llvm.store import store
from ..codegen.module_text import ModuleText
from ..codegen.objects import begin_object, object_code, remember_object
from ..codegen.target import Target
from ..ir.errors import InternalError, ScheduleError, refused_if_it_fails
from ..ir.loop.prim import PrimFunc
from ..ir.loop.workload import workload_text
from ..ir.schedule.cases import Cases
from ..ir.schedule.steps import Schedule

KEPT_KERNELS = 1024  # kernels remembered, so that compiling again after tuning costs little
FOREIGN = frozenset(Origin) - {Origin.RULES}
"""Origins of schedules whose code is checked before it is used for the first time."""
MOST_REFUSED = 3
"""Number of schedules from logs that may be refused before a kernel gets the default schedule."""


def checked_kernels(
    prims: Mapping[str, PrimFunc],
    chosen: Mapping[str, Chosen],
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    check: bool = False,
) -> tuple[dict[str, Kernel], dict[str, Chosen]]:
    """Returns the kernels and their schedules: that of ``chosen`` or, where its code is refused,
    the next best of the ``logs`` or the rules, or the fastest of its ``rivals``. With ``check``,
    the rules' schedules may be refused, too."""
    kernels: dict[str, Kernel] = {}
    used = {name: _raced(prims[name], way, target, threads) for name, way in chosen.items()}
    workloads = {name: workload_of(prim).hash for name, prim in prims.items()}
    refused: dict[str, list[Schedule | Cases]] = {name: [] for name in chosen}
    waiting = set(chosen)
    while waiting:
        reasons: dict[str, str] = {}
        for name in waiting:
            foreign = used[name].origin in FOREIGN
            try:
                with refused_if_it_fails(foreign):
                    kernels[name] = _kernel(prims[name], workloads[name], used[name], target)
                    if foreign:
                        object_code(kernels[name].code, target)
            except ScheduleError as error:
                reasons[name] = error.message
        subjects = {
            (name, workload): Subject(prim, kernel, target, workload, used[name].schedule)
            for name in waiting - reasons.keys()
            if used[name].origin in FOREIGN or check
            for workload, prim, kernel in _at_points(prims[name], kernels[name])
        }
        if subjects and can_try(target):
            for (name, _), reason in refusals(subjects, cache_folder()).items():
                reasons.setdefault(name, reason)
        for name, reason in reasons.items():
            refused[name].append(used[name].schedule)
            tried = logs if len(refused[name]) < MOST_REFUSED else ()
            new = _next_best(prims[name], target, threads, tried, used[name], refused[name], reason)
            used[name] = new
        waiting = set(reasons)
    return {name: kernels[name] for name in chosen}, used


def _at_points(prim: PrimFunc, kernel: Kernel) -> Iterator[tuple[str, PrimFunc, Kernel]]:
    """Yields workload, PrimFunc and kernel at the sizes at which the code is checked."""
    if not prim.sizes:
        yield workload_of(prim).hash, prim, kernel
    for point in checked_points(prim) if prim.sizes else ():
        yield workload_at(prim, point).hash, specialised(prim, point), kernel.at(point)


def _next_best(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    old: Chosen,
    refused: Sequence[Schedule | Cases],
    reason: str,
) -> Chosen:
    """Returns the schedule that replaces one which was refused for a reason."""
    if old.origin in FOREIGN:
        new = choose_schedule(prim, target, threads, logs, refused=refused)
    elif old.schedule != (plain := plain_schedule(prim, target)) and len(refused) < MOST_REFUSED:
        schedule, sketch = default_cases(prim, target, refused)
        new = Chosen(schedule, Origin.RULES, sketch)
    elif old.schedule != plain:
        new = Chosen(plain, Origin.RULES, "plain")
    else:
        raise InternalError(f"the code of {prim.name} is refused under its plain loops: {reason}")
    return replace(new, refused=(*old.refused, reason))


def _raced(prim: PrimFunc, chosen: Chosen, target: Target, threads: int) -> Chosen:
    """Returns the fastest of a schedule and its ``rivals``, the last of which is the default.

    They are measured once on a machine. Where they cannot be, the records decide.
    """
    if not chosen.rivals:
        return chosen
    *ways, default = chosen, *chosen.rivals
    machine = replace(target, features=frozenset()), sorted(target.features)
    schedules = [way.schedule.to_json() for way in (default, *ways)]
    entry = store().key("race", workload_text(prim), schedules, threads, *machine)
    content = store().get(entry)
    if content is None and can_try(target):
        content = json.dumps(_race(prim, [default, *ways], target, threads)).encode()
        store().put(entry, f"race {prim.name}", content)
    gains: list[float] = json.loads(content or "[]")
    promising = chosen if chosen.gain >= SELECTION.least_gain else default
    best, gain = promising, promising.gain
    reasons = [] if promising is chosen or gains else [f"a {chosen.source} is not measured here"]
    if gains:
        gain = max(gains)
        best = [default, *ways][gains.index(gain)]
        reasons = [
            f"a {way.source} is {g:.2f}x the default's speed" if g else f"a {way.source} is refused"
            for way, g in zip(ways, gains[1:])
            if way is not best
        ]
    return replace(best, rivals=(), gain=gain, passed=(*default.passed, *reasons))


def _race(prim: PrimFunc, ways: Sequence[Chosen], target: Target, threads: int) -> list[float]:
    """Returns how many times as fast as the first of several schedules each is, 0 for those that
    are refused or lost a race early; nothing if calls take too long for a race."""
    workload = workload_of(prim).hash
    subjects: dict[int, Subject] = {}
    for number, way in enumerate(ways):
        with contextlib.suppress(ScheduleError), refused_if_it_fails(number > 0):
            kernel = _kernel(prim, workload, way, target)
            subjects[number] = Subject(prim, kernel, target, workload, way.schedule)
    checked = {number: subject for number, subject in subjects.items() if number}
    for number in refusals(checked, cache_folder()):
        del subjects[number]
    with contextlib.suppress(OSError, MemoryError):
        speedups = dict(zip(subjects, race([*subjects.values()], threads)))
        return [speedups.get(number, 0.0) for number in range(len(ways))] if speedups else []
    return []


def begin_kernel(prim: PrimFunc, chosen: Chosen, target: Target, inline: bool) -> None:
    """Begins to compile the kernel of a PrimFunc beside the caller, whom ``checked_kernels`` gives
    it later. With ``inline``, those that will be a part of the entry are left out."""
    # What is wrong with a schedule is found, and replaced, there.
    with contextlib.suppress(Exception):
        for way in (chosen, *chosen.rivals):
            kernel = _kernel(prim, workload_of(prim).hash, way, target)
            if not (inline and inlined_lines(kernel)):
                begin_object(kernel.code, target)


_kernels: OrderedDict[tuple[str, Chosen, Target], Kernel] = OrderedDict()
_lock = threading.Lock()


def _kernel(prim: PrimFunc, workload: str, chosen: Chosen, target: Target) -> Kernel:
    """Returns the kernel of a PrimFunc. The workload names its symbol: equal work shares code."""
    with _lock:
        kernel = _kernels.get(_kernel_key(workload, chosen, target))
    if kernel is None:
        symbol = kernel_symbol(workload)
        kernel = _compiled_or_stored(prim, chosen.schedule, target, symbol)
        remember_kernel(workload, chosen, target, kernel)
    return kernel


def _compiled_or_stored(
    prim: PrimFunc, schedule: Schedule | Cases, target: Target, symbol: str
) -> Kernel:
    """Returns the kernel of a schedule, whose code is that of the disk cache if it is there."""
    kept = store()
    machine = replace(target, features=frozenset()), sorted(target.features)
    entry = kept.key("kernel", workload_text(prim), schedule.to_json(), symbol, *machine)
    code = kept.get(entry)
    if code is None:
        kernel = compile_kernel(prim, schedule, target, symbol)
        if not entry:
            return kernel
        text = ModuleText(entry, kernel.code.read, entry, f"kernel {prim.name}")
        return replace(kernel, code=text)
    kernel = stored_kernel(prim, schedule, target, symbol, entry, code)
    remember_object(kernel.code, target, code)
    return kernel


def remember_kernel(workload: str, chosen: Chosen, target: Target, kernel: Kernel) -> None:
    """Keep the kernel of a workload under a schedule for the next build."""
    with _lock:
        _kernels[_kernel_key(workload, chosen, target)] = kernel
        while len(_kernels) > KEPT_KERNELS:
            _kernels.popitem(last=False)


def _kernel_key(workload: str, chosen: Chosen, target: Target) -> tuple[str, Chosen, Target]:
    return workload, replace(chosen, seconds=0.0, refused=()), target
