"""Lowers one module with many sets of choices; passes with the same answers run once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from ..autotune.workload import workload_of
from ..driver.pipeline import KernelMemo, called_kernels
from ..ir.dataclass import dataclass
from ..ir.graph.choices import Choices, Site
from ..ir.graph.nodes import Module
from ..ir.graph.passes.choose_algorithms import Preferences
from ..ir.graph.pipeline import GRAPH, default_pipeline
from ..ir.loop.prim import PrimFunc
from ..ir.pass_context import PassContext

Taken: TypeAlias = Mapping[str, str]
"""Options by the key of their choice point."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A module lowered with some choices: its kernel calls, and the choice points it met."""

    prims: tuple[PrimFunc, ...]
    workloads: Counter[str]
    sites: Mapping[str, Site]


@dataclass(frozen=True, slots=True)
class _Run:
    """The result of a pass on a module, with the answers at the choice points it met."""

    before: Module
    asked: Mapping[str, Site]
    answers: Taken
    after: Module


@dataclass(slots=True)
class Variants:
    """The lowerings of ``module``. A pass runs again only if its answers or its module differ."""

    module: Module
    preferences: Preferences
    passes: PassContext = field(default_factory=PassContext)
    _runs: dict[tuple[int, int], list[_Run]] = field(
        default_factory=dict[tuple[int, int], list[_Run]]
    )
    _kernels: KernelMemo = field(default_factory=dict)
    _hashes: dict[int, str] = field(default_factory=dict[int, str])

    def of(self, taken: Taken) -> Variant:
        """Returns the module lowered with these choices."""
        choices = Choices(taken)
        module = self.module
        for number, step in enumerate(default_pipeline(self.preferences, choices)):
            runs = self._runs.setdefault((number, id(module)), [])
            run = next((r for r in runs if _answers(r.asked, taken) == r.answers), None)
            if run is None:
                before = set(choices.sites)
                after = self.passes.step(module, step, GRAPH)
                asked = {k: s for k, s in choices.sites.items() if k not in before}
                run = _Run(module, asked, _answers(asked, taken), after)
                runs.append(run)
            choices.sites.update(run.asked)
            module = run.after
        prims = tuple(called_kernels(module, self._kernels))
        return Variant(prims, Counter(map(self.hash_of, prims)), choices.sites)

    def hash_of(self, prim: PrimFunc) -> str:
        """Returns the hash of a kernel's workload."""
        if id(prim) not in self._hashes:
            self._hashes[id(prim)] = workload_of(prim).hash
        return self._hashes[id(prim)]


def _answers(sites: Mapping[str, Site], taken: Taken) -> Taken:
    return {key: current(site, taken) for key, site in sites.items()}


def current(site: Site, taken: Taken) -> str:
    """Returns the option that is taken at a choice point."""
    wanted = taken.get(site.key)
    return wanted if wanted in site.options else site.options[0]
