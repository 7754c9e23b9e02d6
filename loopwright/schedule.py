"""Schedules by hand: the primitives, and ``Schedule`` to hold them (``lw.schedule``).

>>> import loopwright as lw
>>> print(lw.schedule.split("i", (16, 4)))
split('i', (16, 4))
"""

from .ir.schedule import steps
from .ir.schedule.steps import *  # noqa: F403 - every primitive there is, and no list of them twice

__all__: list[str] = []
__all__ += steps.__all__
