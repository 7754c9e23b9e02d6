"""All programs: each file declares its own."""

from . import arithmetic, dynamic, graphs, learning, linear, numeric, simulation, sorting, strings

__all__ = [
    "arithmetic",
    "dynamic",
    "graphs",
    "learning",
    "linear",
    "numeric",
    "simulation",
    "sorting",
    "strings",
]
