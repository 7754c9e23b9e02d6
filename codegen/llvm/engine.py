"""LLVM text in, object code out: the one door to llvmlite.

``compile_object`` is pure: the same text and target give the same bytes. ``link.py`` loads them.
"""

from __future__ import annotations

import re
import threading
from functools import cache

import llvmlite.binding as llvm

from ...ir.errors import ScheduleError
from ..target import Target

WHOLE = "; loops around inlined kernels"
"""First line of a text of scalar code and loops of all kinds, for which LLVM runs more passes."""

LOCK = threading.RLock()
_ready = False


def _initialise() -> None:
    global _ready
    if not _ready:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # for the few instructions that have no IR
        _ready = True


def features_of(target: Target) -> str:
    """LLVM's spelling of what the target has beside its level."""
    extra = sorted(target.features)
    if target.has_tiles:
        extra.append("amx-tile")
    return ",".join([*filter(None, [target.level.tuning]), *(f"+{name}" for name in extra)])


@cache
def machine_of(target: Target) -> llvm.TargetMachine:
    """Returns LLVM's machine of a target, made once: a new one computes its processor's tables at
    its first function, which takes as long as a small kernel.
    """
    _initialise()
    level = target.level
    if not target.is_native:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=level.processor or level.name,
        features=features_of(target),
        opt=3,
        reloc="pic" if target.pointer_bytes == 8 else "static",
        codemodel="default",
        jit=target.is_native,
    )


def _parsed(text: str) -> llvm.ModuleRef:
    """Returns the module of a text.

    Raises ScheduleError if LLVM rejects it, so that another schedule is used.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise ScheduleError(f"LLVM refuses the code: {said:.300}") from None
    return module


@cache
def _layout(target: Target) -> tuple[str, str]:
    """Returns the triple and the data layout of modules for a target."""
    machine = machine_of(target)
    return machine.triple, str(machine.target_data)


def optimised(text: str, target: Target) -> llvm.ModuleRef:
    """Returns the module of a text, behind the passes for it; the caller holds ``LOCK``."""
    module = _parsed(text)
    module.triple, module.data_layout = _layout(target)
    # The third level takes a tenth longer, and moves tests of what no iteration changes, such as a
    # check that failed before, out of loops.
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    if text.startswith(WHOLE):
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine_of(target), options)
        builder.getModulePassManager().run(module, builder)
        return module
    builder = llvm.create_pass_builder(machine_of(target), options)
    _passes(not _has_long_chain(text)).run(module, builder)
    return module


@cache
def _passes(combine: bool) -> llvm.ModulePassManager:
    # The short list makes code as fast as -O3's and takes a third of its time.
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    if combine:
        manager.add_instruction_combine_pass()
    return manager


def _has_long_chain(text: str) -> bool:
    """True if a basic block has many integer minima or maxima, as an unrolled argmin has.

    LLVM's instcombine looks through the whole chain at each of them: 0.3 s for 128, 45 s for 1,536.
    """
    if sum(text.count(f" @llvm.{name}.") for name in _EXTREMES) <= MOST_EXTREMES:
        return False
    blocks = _LABEL.split(text)
    return any(len(_EXTREME.findall(block)) > MOST_EXTREMES for block in blocks)


MOST_EXTREMES = 64
_EXTREMES = ("smin", "smax", "umin", "umax")
_EXTREME = re.compile(r"= call [^@]* @llvm\.[su](?:min|max)\.")
_LABEL = re.compile(r"\n[\w.]+:")


def compile_object(text: str, target: Target) -> bytes:
    """Machine code of an LLVM module text as an object of the target's format. ScheduleError shows
    LLVM's complaint about a text that is not valid.
    """
    with LOCK:
        return machine_of(target).emit_object(optimised(text, target))


def disassemble(text: str, target: Target) -> str:
    """The assembly of an LLVM module text."""
    with LOCK:
        return machine_of(target).emit_assembly(optimised(text, target))


def llvm_version() -> str:
    """The version of LLVM behind llvmlite.

    >>> llvm_version()[0].isdigit()
    True
    """
    return ".".join(map(str, llvm.llvm_version_info))
