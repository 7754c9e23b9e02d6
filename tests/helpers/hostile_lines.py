"""Lines that a tuning log should not hold: made from valid lines, and by hand.

``hostile_lines`` is deterministic, the others draw from a random generator.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from loopwright.ir.schedule.schedule import primitives

__all__ = ["hostile_lines", "mutated", "mutated_steps", "odd_values", "random_steps"]


def nested(depth: int, inner: Any = 0) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


def odd_values() -> list[Any]:
    """Values that no field expects, most of them of the wrong type or far too large."""
    return [
        None,
        True,
        -1,
        0,
        2**31,
        2**63,
        10**400,
        -(10**400),
        0.5,
        1e308,
        5e-324,
        float("nan"),
        float("inf"),
        -float("inf"),
        "",
        "1",
        "x" * 150_000,
        "\ud800",
        "a\0b\x1b[2J\n",
        "\u0663\u0664",
        [],
        {},
        [[]],
        {"": {}},
        nested(60),
        nested(600),
        [None] * 5000,
        [{"name": []}],
    ]


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if len(path) < 8 and isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _paths(value, (*path, key))


def _with(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(data)
    changed[path[0]] = _with(data[path[0]], path[1:], value)
    return changed


def _line(data: Any) -> bytes:
    return json.dumps(data).encode()


def _text(data: Any, key: str, raw: str) -> bytes:
    """The line with the JSON text ``raw`` in the place of a field."""
    return json.dumps(data | {key: "@here@"}).replace('"@here@"', raw).encode()


def _bytes_of(data: Any) -> list[bytes]:
    """Lines that are odd below the level of JSON."""
    line = _line(data)
    text = line.decode()
    return [
        line[: len(line) // 2],
        line + line,
        line + b"\r",
        b"\xef\xbb\xbf" + line,
        b"\0" + line,
        line.replace(b"e", b"\0"),
        line[:-1] + b"\xff\xfe}",
        text.encode("utf-16"),
        text.encode("utf-32-le"),
        b"\xff" * 100,
        b"[" * 100_000,
        b'{"v":' * 50_000,
        b"9" * 5_000,
        b'"\\ud800"',
        b"\x1e" + line,
        line.replace(b'"hash": "', b'"hash": "\\ud800'),
        line.replace(b'"hash"', b'"h\\u0061sh"'),
        _text(data, "schedule", nested_text(600)),
        _text(data, "schedule", nested_text(3000)),
        _text(data, "seed", "1" * 400),
        _text(data, "seed", "1" * 5000),
        _text(data, "mood", "NaN"),
        _text(data, "mood", nested_text(600)),
        _text(data, "mood", "-1" + "0" * 400),
        line[:-1] + b', "v": 9}',
        line[:-1] + b', "workload": 3}',
        b'{"v": 1, ' + line[1:],
        b'{"workload": [], ' + line[1:],
        b'{"v": 1, "pad": "' + b" " * 3_000_000 + b'", ' + line[1:],
    ]


def nested_text(depth: int) -> str:
    return "[" * depth + "]" * depth


def _schedules(data: Any) -> Iterator[Any]:
    """The record with schedules that are of the right form and make no sense."""
    steps = data["schedule"]
    axes = sorted({s[1] for s in steps if s[0] == "split"}) or ["i"]
    some = {
        "name": ("nothing", axes[0], f"{axes[0]}.0", "out", "t", "", "x0", "*", "."),
        "int": (0, 1, 3, 2**28, 2**39),
        "ints": ([], [0], [1] * 150, [2**39, 2**39], [0, 0], [5, 3]),
        "names": ([], ["nothing", "i.1"], [axes[0]] * 3, ["i.0", "i.1"], [""]),
    }
    for name, declared in sorted(primitives().items()):
        for choice in range(9):
            args = [some[kind][choice % len(some[kind])] for kind in declared.kinds]
            yield data | {"schedule": [[name, *args]]}
            yield data | {"schedule": [*steps, [name, *args]]}
    yield data | {"schedule": steps * 50}
    yield data | {"schedule": steps[::-1]}
    yield data | {"schedule": [["split", a, [1] * 150] for a in axes]}
    yield data | {"schedule": [["split", a, [1] * 15] for a in axes] + steps}


def hostile_lines(valid: Sequence[Any]) -> list[bytes]:
    """Some thousand hostile lines from valid ones, given as parsed JSON; records come first."""
    lines: list[bytes] = [b"", b" ", b"{}", b"[]", b"null", b"42", b"true", b'"record"', b"{", b"}"]
    for data in valid:
        lines += _bytes_of(data)
        values = odd_values()
        for number, path in enumerate(p for p in _paths(data) if len(p) < 4):
            # All values for the outer fields, each of the others for some inner ones.
            some = values if len(path) < 3 else values[number % 5 :: 5]
            lines += [_line(_with(data, path, value)) for value in some]
        for version in (0, 2, 3, 99, -1, "1", 1.0, True, None, 10**400):
            lines += [_line(data | {"v": version}), _line(data | {"v": version, "kind": [1]})]
        for kind in ("decision", "run", "end", "", [], {}, "X" * 100, None, 3):
            lines.append(_line(data | {"v": 2, "kind": kind}))
        for about in ([], {}, None, "route", "algorithm", "layout", 10**400):
            lines.append(_line(data | {"v": 2, "kind": "decision", "about": about}))
        if isinstance(data.get("schedule"), list):
            lines += [_line(d) for d in _schedules(data)]
    return lines


def mutated(rng: random.Random, valid: Sequence[Any]) -> bytes:
    """A valid line with one to three changes at random places: of types, numbers, names, nesting,
    or of the bytes."""
    data: Any = rng.choice(valid)
    for _ in range(rng.randint(1, 3)):
        paths = list(_paths(data))
        path = rng.choice(paths)
        if not path:
            continue
        old: Any = data
        for key in path:
            old = old[key]
        data = _with(data, path, _changed(rng, old))
    line = _line(data)
    if rng.random() < 0.1 and line:
        at = rng.randrange(len(line))
        line = line[:at] + bytes([rng.randrange(256)]) + line[at + rng.randint(0, 2) :]
    return line.replace(b"\n", b" ")


def _changed(rng: random.Random, old: Any) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(odd_values())
    if kind == 1 and isinstance(old, list) and old:
        other = list(old)
        move = rng.randrange(3)
        if move == 0:
            rng.shuffle(other)
        elif move == 1:
            del other[rng.randrange(len(other))]
        else:
            other.insert(rng.randrange(len(other)), rng.choice(other))
        return other
    if isinstance(old, bool) or old is None:
        return rng.choice([0, "no", [], not old])
    if isinstance(old, int):
        return rng.choice([old + 1, old - 1, old * 2, old * 10**6, -old, rng.random(), 0, 1])
    if isinstance(old, float):
        return rng.choice([-old, old * 1e-9, old * 1e9, 0.0, str(old), 7])
    if isinstance(old, str):
        names = ["i", "j", "k", "out", "t", "i.0", "i.1", "j.0", "k.0", "split", "fuse", "pack"]
        return rng.choice([*names, old + "x", old[:-1], old.upper(), [old], {old: old}])
    return rng.choice([[old], {"a": old}, nested(rng.choice((2, 30, 70)), old)])


def random_steps(rng: random.Random, names: Sequence[str]) -> list[Any]:
    """Steps of the right form with arguments that need not exist, as JSON data."""
    ints = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 200, 2**20, 2**39)
    more = [*names, *(f"{n}.{p}" for n in names for p in range(3)), "", ".0", "nothing"]

    def argument(kind: str) -> Any:
        if kind == "int":
            return rng.choice(ints)
        if kind == "ints":
            return [rng.choice(ints) for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 40)))]
        if kind == "names":
            return [rng.choice(more) for _ in range(rng.choice((0, 1, 2, 2, 3, 5)))]
        return rng.choice((*more, "registers", "stack", "tiles"))

    steps: list[Any] = []
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(sorted(primitives()))
        steps.append([name, *(argument(kind) for kind in primitives()[name].kinds)])
    return steps


def mutated_steps(rng: random.Random, steps: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The steps of a legal schedule with one to three changes that keep their form."""
    made: list[Any] = copy.deepcopy(list(steps))
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(5)
        at = rng.randrange(len(made)) if made else 0
        if kind == 0 or not made:
            made[at:at] = random_steps(rng, names)[:1]
        elif kind == 1:
            del made[at]
        elif kind == 2:
            other = rng.randrange(len(made))
            made[at], made[other] = made[other], made[at]
        else:
            new = random_steps(rng, names)
            same = [s for s in new if s[0] == made[at][0]]
            place = rng.randrange(len(made[at]))
            if same:
                made[at][place] = same[0][place]
            elif isinstance(made[at][place], list) and made[at][place]:
                part = rng.randrange(len(made[at][place]))
                old = made[at][place][part]
                fresh: Any = rng.choice(names) if isinstance(old, str) else old * 2 + 1
                made[at][place][part] = fresh
            elif isinstance(made[at][place], int):
                made[at][place] = rng.choice((0, 1, 2, made[at][place] * 3, 2**39))
            elif place:
                made[at][place] = rng.choice(names)
    return made
