"""The ``tune=`` option of ``lw.compile``, and the options of tuning in the background."""

from __future__ import annotations

from typing import Literal

from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError


@dataclass(frozen=True, slots=True)
class Background:
    """Options of tuning beside a running program.

    ``share`` is the part of the processors this process may use that tuning takes on average,
    ``budget`` the time after which it ends at the latest (it ends sooner if nothing is found).
    With ``priority`` "idle" it runs only where no other process wants to, so on a machine that is
    busy all the time it never ends; "normal" takes its share like any other.

    >>> Background(share=0.5, budget="2m")
    Background(share=0.5, budget='2m', priority='idle')
    """

    share: float = 0.25
    budget: str | float = "10m"
    priority: str = "idle"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise LoopwrightValueError(
                f"the share of the processors is above 0 and at most 1, not {self.share!r}"
            )
        if self.priority not in ("idle", "normal"):
            raise LoopwrightValueError(f'priority is "idle" or "normal", not {self.priority!r}')
        from ..autotune.budget import parse_budget  # loaded when it is first needed

        try:
            seconds = parse_budget(self.budget).seconds
        except ValueError as error:
            raise LoopwrightValueError(str(error)) from None
        if seconds is None:
            raise LoopwrightValueError(f"budget {self.budget!r} sets no time; write one, as '10m'")


Tune = Background | Literal["quick"]


def tune_option(tune: object) -> Tune | None:
    """Returns the ``tune=`` option of ``lw.compile``; ``"background"`` as a ``Background``."""
    if tune is None or isinstance(tune, Background):
        return tune
    if tune == "background":
        return Background()
    if tune == "quick":
        return "quick"
    raise LoopwrightTypeError(
        f'tune is "quick", "background" or lw.Background(...), not {tune!r}',
        hint='f.tune(*args, budget="30s") tunes at once, before the program goes on',
    )
