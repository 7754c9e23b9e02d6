"""Choice points: where a pass has options, and the options that are taken.

A pass asks at a *site*: a place in the graph known by a text of what stands there (operators,
types, attributes; no names), so that it is the same site in every program and every process. Its
options have names, and the first is what the pass does unless it is told otherwise. Whoever
measures both ways says so with ``taken``.

>>> choices = Choices({})
>>> choices.take("fusion", "add(float32[4], 1)", ("fused", "apart"))
'fused'
>>> (site,) = choices.sites.values()
>>> Choices({site.key: "apart"}).take("fusion", "add(float32[4], 1)", ("fused", "apart"))
'apart'
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from ..dataclass import dataclass
from .nodes import Atom, Call, Constant
from .printer import scalar_text, value_text


@dataclass(frozen=True, slots=True)
class Site:
    """``about`` is the kind of choice: "algorithm", "fusion", "layout" or "loop". ``key`` are 16
    hexadecimal digits; ``options[0]`` is the default. ``work`` are the instructions (``work.py``)
    of what stands there, in all of its places, roughly: larger sites are measured first."""

    about: str
    key: str
    text: str
    options: tuple[str, ...]
    work: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class Choices:
    """Options by the key of their choice point (``taken``), and the points met (``sites``)."""

    taken: Mapping[str, str]
    sites: dict[str, Site] = field(default_factory=dict[str, Site])

    def take(self, about: str, text: str, options: Sequence[str], work: float = math.inf) -> str:
        """Returns the option to use at a choice point, where that much ``work`` is to be done."""
        digest = hashlib.blake2b(f"{about} {text}".encode(), digest_size=8).hexdigest()
        site = self.sites.get(digest) or Site(about, digest, text, tuple(options))
        self.sites[digest] = replace(site, work=site.work + work)
        wanted = self.taken.get(digest)
        return wanted if wanted in site.options else site.options[0]


def call_text(call: Call, without: str = "", operand: Callable[[Atom], str] | None = None) -> str:
    """A call of an operator without names: types for its operands, attributes but ``without``.

    >>> from .parser import parse_function
    >>> f = parse_function("fn (%x: Tensor[(2, 3), float32]) { sum(%x, axis=[1]) }")
    >>> call_text(f.body.bindings[0].value)
    'sum(Tensor[(2, 3), float32], axis=[1], keepdims=False)'
    """
    operands = [(operand or operand_text)(a) for a in call.args]
    attrs = [f"{k}={value_text(v)}" for k, v in sorted(call.attrs.items()) if k != without]
    name = call.op.name
    return f"{name}({', '.join([*operands, *attrs])})"


def operand_text(atom: Atom) -> str:
    """Returns an operand by its type, a number by its value."""
    if not isinstance(atom, Constant):
        return str(atom.type)
    return f"{atom.type} const" if atom.value.ndim else scalar_text(atom.value)
