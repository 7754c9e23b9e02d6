"""One module lowered in many ways, each only as far as it differs from those before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..autotune.workload import workload_of
from ..ir.graph.choices import Choices, Site
from ..ir.graph.nodes import Module
from ..ir.graph.passes.choose_algorithms import Preferences
from ..ir.graph.pipeline import GRAPH, default_pipeline
from ..ir.loop.prim import PrimFunc
from ..ir.pass_context import PassContext
from ..pipeline import KernelMemo, called_kernels

__all__ = ["Taken", "Variant", "Variants", "current"]

Taken: TypeAlias = Mapping[str, str]
"""Options by the key of their site."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A module lowered with some choices: its kernel calls, and the sites that were asked at."""

    prims: tuple[PrimFunc, ...]
    workloads: Counter[str]
    sites: Mapping[str, Site]


@dataclass(frozen=True, slots=True)
class _Run:
    """What a pass made of a module when its questions were answered so."""

    before: Module
    asked: Mapping[str, Site]
    answers: Taken
    after: Module


@dataclass(slots=True)
class Variants:
    """The lowerings of ``module``. A pass runs again only if its answers, or its module, differ."""

    module: Module
    preferences: Preferences
    passes: PassContext = field(default_factory=PassContext)
    _runs: dict[tuple[int, int], list[_Run]] = field(
        default_factory=dict[tuple[int, int], list[_Run]]
    )
    _kernels: KernelMemo = field(default_factory=dict)
    _hashes: dict[int, str] = field(default_factory=dict[int, str])

    def of(self, taken: Taken) -> Variant:
        """The module lowered with these choices."""
        choices = Choices(taken)
        module = self.module
        for number, step in enumerate(default_pipeline(self.preferences, choices)):
            runs = self._runs.setdefault((number, id(module)), [])
            found = next((r for r in runs if _answers(r.asked, taken) == r.answers), None)
            if found is None:
                known = set(choices.sites)
                after = self.passes.step(module, step, GRAPH)
                asked = {k: s for k, s in choices.sites.items() if k not in known}
                found = _Run(module, asked, _answers(asked, taken), after)
                runs.append(found)
            choices.sites.update(found.asked)
            module = found.after
        prims = tuple(called_kernels(module, self._kernels))
        return Variant(prims, Counter(map(self.hash_of, prims)), choices.sites)

    def hash_of(self, prim: PrimFunc) -> str:
        """The hash of a kernel's workload."""
        found = self._hashes.get(id(prim))
        if found is None:
            found = self._hashes[id(prim)] = workload_of(prim).hash
        return found


def _answers(sites: Mapping[str, Site], taken: Taken) -> Taken:
    return {key: current(site, taken) for key, site in sites.items()}


def current(site: Site, taken: Taken) -> str:
    """The option that is taken at a site."""
    wanted = taken.get(site.key)
    return wanted if wanted in site.options else site.options[0]
