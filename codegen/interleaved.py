"""Adjacent calls of an elementary function become its instructions, vector by vector.

::

    %a = call <8 x float> @f(<8 x float> %x)      %a.v0 = fmul <8 x float> %x, %x
    %b = call <8 x float> @f(<8 x float> %y)  =>  %b.v0 = fmul <8 x float> %y, %y
                                                  %a = fsub <8 x float> %a.v0, %x
                                                  %b = fsub <8 x float> %b.v0, %y

Those of one vector wait for each other, and a core whose schedulers hold some 64 of them does not
get as far as the next vector.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

VECTORS_AT_ONCE = 4
"""Vectors at a time: what is under way of more of them has no registers."""
MOST_ADDED = 100_000
"""Characters that a function may grow by: LLVM takes some 10 ms to read so many."""

_Row: TypeAlias = tuple[str, re.Match[str] | None]

_CALL = re.compile(r"  (%[\w.]+) = call <[^>]*> @(lw\.[\w.]+)\((.*)\)")


def interleaved(text: str, functions: Mapping[str, str]) -> str:
    """Returns a function's text without such calls of straight ``functions``, texts by symbol."""
    matches = [(l, _CALL.fullmatch(l) if "@lw." in l else None) for l in text.split("\n")]
    lines: list[str] = []
    if sum(len(functions.get(call[2], "")) for _, call in matches if call) > MOST_ADDED:
        return text
    for symbol, run in itertools.groupby(matches, lambda pair: pair[1][2] if pair[1] else ""):
        body = functions.get(symbol, "")
        if body.count(":\n") != 1:  # it has branches, or these are no calls
            lines += [line for line, _ in run]
            continue
        for rows in _independent([*run]):
            calls = [call for _, call in rows if call]
            if len(calls) > 1:
                lines += itertools.chain(*zip(*(_steps(body, call) for call in calls)))
            else:
                lines += [line for line, _ in rows]
    return "\n".join(lines)


def _independent(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Returns lines in groups of a few, of which none has the result of another as operand."""
    groups: list[list[_Row]] = []
    for line, call in rows:
        before = {other[1] for _, other in groups[-1] if other} if groups else set[str]()
        if (
            not groups
            or len(groups[-1]) == VECTORS_AT_ONCE
            or (call and not before.isdisjoint(re.findall(r"%[\w.]+", call[3])))
        ):
            groups.append([])
        groups[-1].append((line, call))
    return groups


def _steps(body: str, call: re.Match[str]) -> list[str]:
    """The instructions of a function, with the operands and the result of a call."""
    head, _entry, *steps, last, _end = body.strip().split("\n")
    operands = re.findall(r"<[^>]*> (.+?)(?=, <|$)", call[3])
    names = dict(zip(re.findall(r"%\w+", head), operands, strict=True))
    names[last.split()[-1]] = call[1]
    return [re.sub(r"%\w+", lambda m: names.get(m[0], f"{call[1]}.{m[0][1:]}"), s) for s in steps]
