"""Random programs over symbolic sizes: Python functions as text, and what NumPy computes of them.

A program is drawn operation by operation. Each is tried by NumPy at a few sizes, 0 and 1 among
them; one that is an error at any of them is left out, so a program has a meaning for all sizes.
"""

from __future__ import annotations

import itertools
import linecache
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["SizedProgram", "draw_sized", "failure"]

NAMES = ("n", "m", "k")
TRIED: tuple[tuple[int, int, int], ...] = ((7, 11, 5), (3, 2, 13), (1, 4, 1), (0, 1, 2), (2, 0, 3))
DRAWN = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 65, 100)
FIXED = (1, 2, 3, 4, 8, 16)
OPERATIONS = 7
Sizes = Mapping[str, int]

_files = itertools.count()


@dataclass(frozen=True, slots=True)
class SizedProgram:
    """``def f(x0, ...)`` with the axes of its arguments as expressions over ``n``, ``m``, ``k``,
    which are at least ``least``; ``guards`` counts the comparisons of sizes in it."""

    arguments: tuple[tuple[str, ...], ...]
    dtypes: tuple[str, ...]
    lines: tuple[str, ...]
    result: str
    guards: int
    least: int

    def __str__(self) -> str:
        names = ", ".join(f"x{n}" for n in range(len(self.arguments)))
        specs = [f"x{n}: {d}[{', '.join(a)}]" for n, (a, d) in enumerate(self._pairs())]
        body = "\n".join(f"    {line}" for line in (*self.lines, f"return {self.result}"))
        return f"def f({names}):  # {'; '.join(specs)}\n{body}\n"

    def _pairs(self) -> zip[Any]:
        return zip(self.arguments, self.dtypes)

    def function(self) -> Any:
        file = f"<program {next(_files)}>"
        text = str(self)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        scope: dict[str, Any] = {"np": np, "lw": lw}
        exec(compile(text, file, "exec"), scope)
        return scope["f"]

    @property
    def dynamic(self) -> dict[str, dict[int, Any]]:
        dims = {name: lw.Dim(name, min=self.least) for name in NAMES}
        return {
            f"x{n}": {
                axis: eval(size, {}, dims) for axis, size in enumerate(sizes) if not size.isdigit()
            }
            for n, sizes in enumerate(self.arguments)
        }

    def arrays(self, sizes: Sizes, rng: np.random.Generator) -> list[Any]:
        made: list[Any] = []
        for shape, dtype in self._pairs():
            numbers = [eval(size, {}, dict(sizes)) for size in shape]
            made.append(rng.uniform(-1, 1, numbers).astype(dtype))
        return made


@dataclass(slots=True)
class _Draft:
    """A program while it is drawn: the values of its variables at the sizes that are tried."""

    rng: random.Random
    values: dict[str, list[Any]]
    trials: int
    lines: list[str] = field(default_factory=list)
    guards: int = 0

    def add(self, text: str) -> bool:
        """Adds a variable with the value of an expression, if it has one at all sizes."""
        results: list[Any] = []
        for trial in range(self.trials):
            scope = {name: values[trial] for name, values in self.values.items()}
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    result = eval(text, {"np": np}, scope)
            except (ValueError, IndexError, TypeError, ZeroDivisionError):
                return False
            if not isinstance(result, np.ndarray) or result.size > 20_000 or result.ndim > 4:
                return False
            results.append(result)
        if len({(r.ndim, r.dtype) for r in results}) > 1:
            return False
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = results
        return True

    def pick(self) -> str:
        names = [*self.values]
        return self.rng.choice(names[-4:] if self.rng.random() < 0.7 else names)

    def rank(self, name: str) -> int:
        return self.values[name][0].ndim


def draw_sized(seed: int) -> SizedProgram:
    rng = random.Random(seed)
    names = NAMES[: rng.randint(1, 3)]
    arguments: list[tuple[str, ...]] = [(name,) for name in names if rng.random() < 0.3]
    while len(arguments) < 2 or len({s for a in arguments for s in a} & {*names}) < len(names):
        arguments.append(tuple(_size(rng, names) for _ in range(rng.randint(1, 3))))
    plain = {s for a in arguments for s in a}
    dtype = rng.choice(("float32", "float64"))
    dtypes = [dtype if rng.random() < 0.9 else "int64" for _ in arguments]
    least = rng.randrange(2)
    tried = [sizes for sizes in TRIED if min(sizes) >= least]
    program = SizedProgram(tuple(arguments), tuple(dtypes), (), "x0", 0, least)
    assert plain >= {*names}
    generator = np.random.default_rng(seed)
    drawn = [program.arrays(dict(zip(NAMES, sizes)), generator) for sizes in tried]
    values = {f"x{n}": [arrays[n] for arrays in drawn] for n in range(len(arguments))}
    draft = _Draft(rng, values, len(tried))
    for _ in range(40):
        if len(draft.lines) >= OPERATIONS:
            break
        rng.choice(_KINDS)(draft)
    used = [n for n in draft.values if n[0] == "v"][-2:] or ["x0 + 1"]
    result = used[0] if len(used) == 1 else f"({', '.join(used)})"
    return replace(program, lines=tuple(draft.lines), result=result, guards=draft.guards)


def _size(rng: random.Random, names: Sequence[str]) -> str:
    name = rng.choice(names)
    kind = rng.random()
    if kind < 0.55:
        return name
    if kind < 0.8:
        return str(rng.choice(FIXED))
    return rng.choice((f"2*{name}", f"{name} + 1", f"3*{name}", f"4*{name} + 2"))


def _unary(draft: _Draft) -> None:
    x = draft.pick()
    forms = ("-{}", "np.tanh({})", "np.exp(-np.abs({}))", "np.sqrt(np.abs({}))", "{} * 2 + 1")
    draft.add(
        draft.rng.choice((*forms, "np.maximum({}, 0)", "np.where({} > 0, 1.5, -0.5)")).format(x)
    )


def _binary(draft: _Draft) -> None:
    x, y = draft.pick(), draft.pick()
    draft.add(f"{x} {draft.rng.choice('+-*')} {y}")


def _spread(draft: _Draft) -> None:
    x, y = draft.pick(), draft.pick()
    if draft.rank(x) == draft.rank(y) == 1:
        draft.add(f"{x}[:, None] {draft.rng.choice('+*')} {y}")


def _axis(draft: _Draft, x: str) -> int:
    return draft.rng.randrange(max(draft.rank(x), 1))


def _reduce(draft: _Draft) -> None:
    x = draft.pick()
    keep = draft.rng.random() < 0.5
    function = draft.rng.choice(("sum", "max", "sum", "prod"))
    if draft.rank(x):
        draft.add(f"np.{function}({x}, axis={_axis(draft, x)}, keepdims={keep})")


def _softmax(draft: _Draft) -> None:
    x = draft.pick()
    if draft.rank(x) and draft.add(f"np.exp({x} - {x}.max(axis=-1, keepdims=True))"):
        y = [*draft.values][-1]
        draft.add(f"{y} / {y}.sum(axis=-1, keepdims=True)")


def _slice(draft: _Draft) -> None:
    x = draft.pick()
    rng, size = draft.rng, f"{x}.shape[0]"
    parts = ("1:", ":-1", "::2", "::-1", "2:", ":3", "1::3", f": {size} // 2", f"{size} // 3 :")
    if draft.rank(x):
        draft.add(f"{x}[{rng.choice(parts)}]")


def _reshape(draft: _Draft) -> None:
    x = draft.pick()
    rank, s = draft.rank(x), f"{x}.shape"
    forms = [f"{x}.reshape(-1)", f"{x}.reshape({x}.size)", f"{x}[None]", f"{x}[..., None]"]
    if rank == 2:
        forms += [f"{x}.T", f"{x}.reshape({s}[1], {s}[0])", f"{x}.reshape({s}[0], 1, {s}[1])"]
    if rank == 3:
        forms += [f"{x}.reshape({s}[0] * {s}[1], {s}[2])", f"{x}.transpose(2, 0, 1)"]
        forms += [f"{x}.reshape({s}[0], {s}[1] * {s}[2])", f"{x}.swapaxes(0, 1)"]
    if rank == 1:
        forms += [f"{x}.reshape(2, {s}[0] // 2)", f"{x}.reshape({s}[0] // 3, 3)"]
    draft.add(draft.rng.choice(forms))


def _join(draft: _Draft) -> None:
    x, y = draft.pick(), draft.pick()
    axis = _axis(draft, x)
    forms = (f"np.concatenate([{x}, {y}], axis={axis})", f"np.stack([{x}, {y}], axis={axis})")
    forms += (f"np.concatenate([{x}, {x}], axis={axis})", f"np.pad({x}, 1)", f"np.tile({x}, 2)")
    draft.add(
        draft.rng.choice((*forms, f"np.roll({x}, 1, axis={axis})", f"np.repeat({x}, 2, {axis})"))
    )


def _matmul(draft: _Draft) -> None:
    x, y = draft.pick(), draft.pick()
    ranks = draft.rank(x), draft.rank(y)
    if ranks == (2, 2):
        form = draft.rng.choice(
            ("{0} @ {1}", "{0} @ {1}.T", "{0}.T @ {1}", "{0}.T @ {0}", "{0} @ {0}.T")
        )
        draft.add(form.format(x, y) + " / 4")
    elif min(ranks) >= 1:
        draft.add(f"{x} @ {y}")


def _made(draft: _Draft) -> None:
    x = draft.pick()
    if not draft.rank(x):
        return
    s = f"{x}.shape[{_axis(draft, x)}]"
    forms = (
        f"np.arange({s})",
        f"np.zeros(({s}, 3))",
        f"np.ones({x}.shape)",
        f"np.full({s} + 2, 0.5)",
    )
    forms += (f"np.zeros({s} * 2)", f"np.arange({s} + 1) / 2", f"np.zeros(({s}, {s}))")
    draft.add(draft.rng.choice(forms))


def _counted(draft: _Draft) -> None:
    x = draft.pick()
    if not draft.rank(x):
        return
    s = f"{x}.shape[{_axis(draft, x)}]"
    forms = (f"{x} * {s}", f"{x} / ({s} + 1)", f"{x} + ({x}.size % 3)", f"{x} - ({s} // 2) * 0.5")
    forms += (f"{x} / np.sqrt({s} + 1)", f"{x} * (1 / (2 + {s}))", f"{x} + min({s}, 2**40)")
    draft.add(draft.rng.choice(forms))


def _guard(draft: _Draft) -> None:
    x = draft.pick()
    if draft.guards < 2 and draft.rank(x):
        s = f"{x}.shape[{_axis(draft, x)}]"
        test = draft.rng.choice((f"{s} > 8", f"{s} % 2 == 0", f"{s} == {x}.size", f"3 <= {s} < 20"))
        if draft.add(f"({x} + 1 if {test} else {x} * 2)"):
            draft.guards += 1 + test.startswith("3 <=")


def _scan(draft: _Draft) -> None:
    x = draft.pick()
    axis = _axis(draft, x)
    forms = (f"np.cumsum({x}, axis={axis})", f"np.flip({x}, {axis})", f"np.diff({x}, axis={axis})")
    draft.add(draft.rng.choice((*forms, f"np.sort({x}, axis={axis})", f"np.clip({x}, -0.5, 0.5)")))


_KINDS = (
    *(_unary, _unary, _binary, _binary, _binary, _spread, _reduce, _reduce, _softmax, _slice),
    *(_reshape, _reshape, _join, _matmul, _matmul, _made, _counted, _guard, _scan),
)


def _drawn_sizes(rng: random.Random, least: int) -> Sizes:
    return {name: rng.choice(DRAWN[least:]) for name in NAMES}


def failure(program: SizedProgram, seed: int, calls: int = 6) -> str:
    """Compiles a program once and holds it against NumPy at several sizes; returns what is wrong,
    "" if nothing is, and "refused: ..." for what the compiler does not do."""
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    function = program.function()
    compiled = lw.compile(function, dynamic=program.dynamic)
    low = program.least
    drawn = [_drawn_sizes(rng, low) for _ in range(calls - 2)]
    for sizes in (*drawn, dict(zip(NAMES, (low, 1, low))), dict.fromkeys(NAMES, 1)):
        arrays = program.arrays(sizes, generator)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                want = function(*arrays)
            except (ValueError, IndexError):
                continue  # sizes for which the program has no meaning after all
        try:
            got = compiled(*arrays)
        except lw.UnsupportedError as error:
            return f"refused: {error.message}"
        except Exception as error:
            return f"{type(error).__name__} at {sizes}: {error}"
        message = _difference(got, want, 1e-4 if "float32" in program.dtypes else 1e-10)
        if message:
            return f"wrong at {sizes}: {message}"
    made = compiled.cache_info().currsize
    return "" if made <= 2**program.guards else f"wrong: compiled {made} times"


def _difference(got: Any, want: Any, relative: float) -> str:
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, right in pairs:
        if one.shape != right.shape or one.dtype != right.dtype:
            return f"{one.dtype}{list(one.shape)} instead of {right.dtype}{list(right.shape)}"
        wide = right.astype(np.float64)
        scale = np.max(np.abs(wide), initial=1.0, where=np.isfinite(wide))
        off = np.abs(one.astype(np.float64) - wide)
        same = (off <= relative * scale) | (np.isnan(one) & np.isnan(wide)) | (one == wide)
        if not np.all(same):
            return f"off by {np.max(off[~same])} of {scale}"
    return ""
