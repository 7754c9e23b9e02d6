"""Several LLVM texts as one relocatable object, each optimised for a target of its own.

Every text is optimised as ``compile_object`` does it, so that the machine code of a function is the
same as in an object of its own. The modules are linked afterwards, and no pass crosses from one to
another but the removal of what nobody calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import llvmlite.binding as llvm

from ...ir.dataclass import dataclass
from ..target import Target
from .engine import LOCK, features_of, machine_of, optimised

_DEFINE = re.compile(r"^(define .*)\{$", re.M)


@dataclass(frozen=True, slots=True)
class LinkedText:
    """An LLVM text, the target it is optimised for, and the names of symbols that others have for
    those of its own; what it defines beside them is its own."""

    text: str
    target: Target
    names: Mapping[str, str]


def one_object(texts: Sequence[LinkedText], public: Collection[str], least: Target) -> bytes:
    """Returns the relocatable object of all texts, in which only ``public`` symbols are visible.

    ``least`` is what all processors can do that may load the object. Raises ScheduleError if LLVM
    refuses a text.
    """
    with LOCK:
        whole, *others = [_module(text) for text in texts]
        for other in others:
            whole.link_in(other)
        for value in (*whole.functions, *whole.global_variables):
            if not value.is_declaration and value.name not in public:
                value.linkage = llvm.Linkage.internal
        manager = llvm.create_new_module_pass_manager()
        manager.add_global_dead_code_eliminate_pass()
        manager.add_constant_merge_pass()
        manager.add_strip_dead_prototype_pass()
        machine = machine_of(least)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        manager.run(whole, llvm.create_pass_builder(machine, options))
        return machine.emit_object(whole)


def _module(linked: LinkedText) -> llvm.ModuleRef:
    """Returns the optimised module of a text, whose functions say for which processor they are."""
    target = linked.target
    words = f'"target-cpu"="{target.level.processor or target.level.name}"'
    if features := features_of(target):
        words += f' "target-features"="{features}"'
    module = optimised(_DEFINE.sub(rf"\1 {words} {{", linked.text), target)
    for value in (*module.functions, *module.global_variables):
        if value.name in linked.names:
            value.name = linked.names[value.name]
        elif not value.is_declaration:
            value.linkage = llvm.Linkage.internal
    return module
