"""The graph IR: Relay's typed functional language in A-normal form.

``types`` and ``nodes`` are the language, ``builder`` the one place that makes calls, ``printer``
and ``parser`` its text, ``verify`` its rules, ``structural`` when two programs are the same, and
``evaluate`` what a program means, in NumPy. ``passes`` turn a traced program into fused groups.
"""

from .builder import Builder
from .nodes import Module
from .printer import as_text

__all__ = ["Builder", "Module", "as_text"]
