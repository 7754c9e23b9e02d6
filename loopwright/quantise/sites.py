"""The contractions of a program that can multiply integers, and the values that they multiply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

from ..ir.dataclass import dataclass
from ..ir.dtype import FLOAT32, Array
from ..ir.errors import UnsupportedError
from ..ir.graph.builder import Builder
from ..ir.graph.contractions import Roles, roles_of
from ..ir.graph.nodes import Atom, Call, Constant, Function, Module, Var, tensor_type
from ..ir.graph.operator import Operator
from ..ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from ..ir.graph.passes.fold_constants import fold_constants
from ..ir.graph.passes.fold_scales import fold_scales
from ..ir.graph.passes.inline_calls import inline_calls
from ..ir.graph.types import TensorType
from ..ir.graph.walk import all_bindings


@dataclass(frozen=True, slots=True)
class Site:
    """A contraction ``call`` that binds ``var``; ``name`` is that of the user's line."""

    name: str
    var: Var
    call: Call
    roles: Roles

    @property
    def weights(self) -> Constant | None:
        """The right factor, if it is a constant."""
        right = self.call.args[1]
        return right if isinstance(right, Constant) else None

    @property
    def depth_axis(self) -> int:
        """The axis of the left factor that is summed over: channels."""
        layout = self.call.attrs.get("data_layout")
        return layout.index("C") if layout else tensor_type(self.call.args[0]).rank - 1


def prepared(module: Module) -> Module:
    """Returns a program with its functions inlined and its constants folded, normalisations behind
    contractions among them. Raises UnsupportedError for symbolic sizes."""
    for change in (inline_calls, fold_constants, fold_scales, eliminate_dead_code):
        module = change(module)
    if module.main.sizes:
        raise UnsupportedError(
            "a program with symbolic sizes cannot be quantised", hint="arguments of known sizes"
        )
    return module


def sites_of(function: Function) -> list[Site]:
    """Returns the float32 contractions of a function outside of loops and branches, in order."""
    sites: list[Site] = []
    for binding in function.body.bindings:
        call, kind = binding.value, binding.var.type
        roles = _roles(call) if isinstance(call, Call) else None
        if (
            not isinstance(call, Call)
            or roles is None
            or not isinstance(kind, TensorType)
            or kind.dtype is not FLOAT32
        ):
            continue
        if not isinstance(call.args[0], Constant):
            name = f"{call.span or binding.var.name} {call.op.name.removeprefix('nn.')}"
            name = _unused(name, {site.name for site in sites})
            sites.append(Site(name, binding.var, call, roles))
    return sites


def _unused(name: str, names: Collection[str]) -> str:
    """Returns a name with a number behind it if others have it already."""
    numbered = (f"{name} ({number})" for number in count(2))
    return next(n for n in chain([name], numbered) if n not in names)


def values_of(function: Function, sites: Sequence[Site]) -> dict[str, Var]:
    """Returns the values that sites multiply by their names: those of parameters, or of the lines
    that they come from."""
    params = set(function.params)
    names: dict[str, Var] = {}
    seen: set[Atom] = set()
    spans = {b.var: getattr(b.value, "span", None) for b in function.body.bindings}
    for value in (a for site in sites for a in site.call.args if isinstance(a, Var)):
        if value in seen:
            continue
        seen.add(value)
        base = value.name if value in params or not spans[value] else str(spans[value])
        names[_unused(base, names)] = value
    return names


def with_results(module: Module, builder: Builder, results: Sequence[Atom]) -> Module:
    """Returns a module whose ``main``, extended by ``builder``, gives other results."""
    attrs = {k: v for k, v in module.main.attrs.items() if k != "outputs"}
    body = builder.block(builder.make_tuple(results))
    return module.with_function("main", replace(module.main, body=body, attrs=attrs))


def results_of(call: Callable[..., Any], sample: Sequence[Array]) -> tuple[Array, ...]:
    """Returns what a call returns, as a tuple if it is one array, too."""
    results = call(*sample)
    return results if isinstance(results, tuple) else (results,)


def left_out(module: Module, sites: Sequence[Site], others: str) -> list[str]:
    """Returns the contractions that are no sites, each with the reason, which is ``others`` for
    those that could be sites."""
    taken, outside = {s.var for s in sites}, {s.var for s in sites_of(module.main)}
    left: list[str] = []
    for function in filter(lambda f: isinstance(f, Function), module.functions.values()):
        assert isinstance(function, Function)
        top = {b.var for b in function.body.bindings} if function is module.main else ()
        for var, call in ((b.var, b.value) for b in all_bindings(function)):
            if not isinstance(call, Call) or _roles(call) is None or var in taken:
                continue
            reason = "not of float32, or of constants" if var in top else "in a loop or branch"
            reason = others if var in outside else reason
            left.append(f"{call.span or var.name} {call.op.name.removeprefix('nn.')}: {reason}")
    return left


def _roles(call: Call) -> Roles | None:
    return roles_of(call) if isinstance(call.op, Operator) else None


def extended(module: Module) -> Builder:
    """Returns a builder that goes on where ``main`` ends."""
    builder = Builder(prefix="observed")
    builder.params += module.main.params
    builder.bindings += module.main.body.bindings
    return builder
