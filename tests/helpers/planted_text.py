"""Errors planted in the LLVM text of kernels: a wrong lane, mask, constant, order or operation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator


def _replaced(pattern: str, instead: str | Callable[[re.Match[str]], str]) -> Callable[..., str]:
    """Returns the change of one match of a pattern, chosen at random, in a line."""

    def change(line: str, rng: random.Random) -> str:
        matches = list(re.finditer(pattern, line))
        if not matches:
            return line
        match = rng.choice(matches)
        new = match.expand(instead) if isinstance(instead, str) else instead(match)
        return line[: match.start()] + new + line[match.end() :]

    return change


def _swapped(pattern: str) -> Callable[..., str]:
    return _replaced(
        pattern, lambda m: m[0].replace(m[1], "\0").replace(m[2], m[1]).replace("\0", m[2])
    )


def _next(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) + 1}"


ERRORS: dict[str, Callable[[str, random.Random], str]] = {
    "a lane of a mask is dropped": _replaced(r"(masked.*)i1 true", r"\1i1 false"),
    "a lane of a mask is added": _replaced(r"(masked.*)i1 false", r"\1i1 true"),
    "a shuffle takes the next lane": _replaced(r"(shufflevector.*i32 )(\d+)", _next),
    "a shuffle takes lanes of the other operand": _swapped(
        r"shufflevector <\d+ x \w+> (%\w+), <\d+ x \w+> (%\w+)"
    ),
    "an address is one element off": _replaced(r"(getelementptr \w+, ptr %\w+, i64 )(\d+)$", _next),
    "an index is one off": _replaced(r"(= add i64 %\w+, )(\d+)$", _next),
    "a stride is one off": _replaced(r"(= mul i64 %\w+, )(\d+)$", _next),
    "a loop ends one iteration late": _replaced(r"(icmp ult i64 %\w+\.next, )(\d+)", _next),
    "a loop ends one iteration early": _replaced(
        r"(icmp ult i64 %\w+\.next, )(\d+)", lambda m: f"{m[1]}{int(m[2]) - 1}"
    ),
    "a sum begins as something else": _replaced(
        r"(phi .*\[splat \((?:float|double) )0x0000000000000000", r"\g<1>0x3FF0000000000000"
    ),
    "a product is a sum": _replaced("= fmul", "= fadd"),
    "a sum is a difference": _replaced("= fadd", "= fsub"),
    "a multiply-add takes one operand twice": _replaced(
        r"(@llvm\.fma\.\w+\((?:<\d+ x )?\w+>? )(%\w+)(, (?:<\d+ x )?\w+>? )(%\w+)", r"\1\2\3\2"
    ),
    "a comparison is the other way round": _replaced(
        r"cmp (o|u|s)(l|g)t", lambda m: f"cmp {m[1]}{'gl'['lg'.index(m[2])]}t"
    ),
    "a choice takes the other value": _swapped(
        r"select (?:<\d+ x )?i1>? %\w+, (?:<\d+ x )?\w+>? (%\w+), (?:<\d+ x )?\w+>? (%\w+)"
    ),
    "a store is missing": _replaced(r"^  (store|call void @llvm.masked.store).*", ""),
    "a load promises too much": _replaced(
        r"(load .*align )(\d+)$", lambda m: f"{m[1]}{64 * int(m[2])}"
    ),
    "the next lane is taken out": _replaced(r"(extractelement .*i64 )(\d+)$", _next),
    "an element is put into the next lane": _replaced(r"(insertelement .*i64 )(\d+)$", _next),
    "a shift is one off": _replaced(r"(= [al]?sh[lr] .*, )(\d+)$", _next),
    "an unsigned number is a signed one": _replaced("= zext", "= sext"),
    "the greater is the lesser": _replaced(r"llvm\.(s|u)max", r"llvm.\1min"),
    "a step is two": _replaced(r"(%i\d+\.sum = add i64 %i\d+, )1$", r"\g<1>2"),
}


def planted(text: str, kind: str, rng: random.Random) -> Iterator[str]:
    """Yields texts with one error of a kind, in random order."""
    lines = text.split("\n")
    numbers = list(range(len(lines)))
    rng.shuffle(numbers)
    for number in numbers:
        line = lines[number]
        if line.startswith("declare"):
            continue
        changed = ERRORS[kind](line, rng)
        if changed != line:
            yield "\n".join([*lines[:number], changed, *lines[number + 1 :]])
