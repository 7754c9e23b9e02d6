"""The request for a search: one value that goes from the user's call down to every tuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from ..ir.dataclass import dataclass
from .budget import Budget, parse_budget
from .progress import Progress
from .protocols import CostModel
from .settings import DEFAULT_SETTINGS, TuneSettings

QUICK: Mapping[str, Any] = MappingProxyType(
    {"leaders": 3, "leader_rounds": 5, "race_seconds": 0.05, "other_cache_rounds": 0}
)
"""Settings of a race that takes a tenth of a second."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Options of a search. ``budget`` is a time, a number of candidates, or both; see
    ``parse_budget``.

    ``suggestions`` are rows of the space, and ``given`` schedules (JSON data, in the space or not),
    by workload hash: they are measured right after the default schedule. ``model`` is the cost
    model, by default the best available one. ``progress`` is told after every candidate.
    ``races``: the leaders of each kernel are raced in the end.
    ``peak_flops`` per second bound the possible gain; 0 if unknown.
    """

    budget: str | float | Budget = "60s"
    strategy: str = "guided"
    seed: int = 0
    settings: TuneSettings = DEFAULT_SETTINGS
    model: CostModel | None = None
    suggestions: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    given: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    progress: Progress | None = None
    races: bool = True
    peak_flops: float = 0.0

    @property
    def limits(self) -> Budget:
        """The budget as seconds and candidates. ValueError if it is not understood."""
        return parse_budget(self.budget)

    def resolved(self) -> TuneRequest:
        """Returns the request with the strategy and the settings that its budget implies."""
        if not self.limits.quick:
            return self
        settings = replace(self.settings, **QUICK)
        return replace(self, strategy="predicted", settings=settings)
