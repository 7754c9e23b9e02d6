"""kernels --> machine code whose hash has a verdict       -> the verdict
            --> the others: operands in separate memory, a call in an otherwise empty process,
                the result compared with the reference      -> the verdict, remembered

A schedule from a log, a near shape or another machine is data from outside, and what its record
says was said about other code. So the code itself is checked, in less time than the tuner's check
takes: the result, with garbage in the registers, on the stack, in the workspace and in the result
beforehand; that no memory beside the operands is touched and no input written; that the iterations
of a parallel loop may run from the last to the first; and probes (``inputs.py``). The time limit is
30 times what a slow machine would take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TypeVar

from ...codegen.kernel import Kernel
from ...codegen.objects import object_code
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.errors import InternalError
from ...ir.loop.prim import PrimFunc
from ...ir.loop.verify import verify_nest
from ...ir.schedule.cases import Cases
from ...ir.schedule.steps import Schedule
from ..record import schedule_key
from . import sandbox
from .trial import Trial, Values
from .verdicts import verdicts

_Name = TypeVar("_Name", bound=Hashable)

CHECK_VERSION = 4
"""Version of the checks; verdicts of other versions are ignored."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel of a PrimFunc, compiled under a schedule. ``workload`` is the PrimFunc's hash, at
    the point of its range where it is tried."""

    prim: PrimFunc
    kernel: Kernel
    target: Target
    workload: str
    schedule: Schedule | Cases

    @property
    def key(self) -> str:
        """A hash of the machine code, its interface, and the version of the checks."""
        kernel = self.kernel
        packs = [o.pack.layout if o.pack else o.role for o in kernel.operands]
        digest = hashlib.sha256(
            f"{CHECK_VERSION} {self.workload} {kernel.workspace_bytes} {packs}\n".encode()
        )
        digest.update(repr(kernel.size_values).encode() if kernel.size_values else b"")
        digest.update(object_code(kernel.code, self.target))
        return digest.hexdigest()


def can_try(target: Target) -> bool:
    """True if this machine runs code for a target."""
    host = Target.host()
    return target.level.cpu_flags <= host.level.cpu_flags and target.features <= host.features


def refusals(subjects: Mapping[_Name, Subject], folder: Path) -> dict[_Name, str]:
    """Returns the reasons why kernels must not be used, by name; kernels without objection are left
    out. Verdicts are remembered in ``folder``."""
    store = verdicts(folder)
    keys = {name: subject.key for name, subject in subjects.items()}
    reasons = {key: store.get(key) for key in keys.values()}
    waiting = {keys[name]: s for name, s in subjects.items() if reasons[keys[name]] is None}
    while waiting:
        try:
            judged = _try(waiting)
        # This says nothing about a kernel, and is not remembered.
        except (OSError, MemoryError, InternalError) as error:
            reasons |= dict.fromkeys(waiting, f"it could not be tried: {error}")
            break
        for key, reason in judged.items():
            reasons[key] = reason
            subject = waiting.pop(key)
            store.put(key, subject.workload, schedule_key(subject.schedule.to_json()), reason)
    return {name: reason for name, key in keys.items() if (reason := reasons[key])}


def _try(subjects: Mapping[str, Subject]) -> dict[str, str]:
    """Returns verdicts on at least one of these kernels: "", or the error."""
    judged: dict[str, str] = {}
    trials: dict[str, Trial] = {}
    job = sandbox.Job()
    try:
        values = Values(job)
        for key, subject in subjects.items():
            try:
                verify_nest(subject.kernel.nest)
                code = object_code(subject.kernel.code, subject.target)
                trials[key] = Trial(subject.prim, subject.kernel, code, job, values)
            except InternalError as error:
                judged[key] = error.message
            except KeyError as error:
                judged[key] = f"it calls {error.args[0]}"
        if not trials:
            return judged
        job.start()
        for trial in trials.values():
            trial.evaluate()
        outcome = job.wait()
        for key, trial in trials.items():
            if outcome.done < trial.end:
                judged[key] = outcome.died
                break
            judged[key] = trial.verdict(outcome.false)
        return judged
    finally:
        job.close()
