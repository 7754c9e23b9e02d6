"""Random programs of views, aliases and writes, as Python text, that NumPy accepts.

A program is drawn statement by statement: NumPy runs each one at once, and one that it refuses is
drawn anew (or ends the program, which then has to be refused by compiled code as well). Values are
small integers in every dtype, so results are exact. The last argument holds indices, which the
program does not change: they are used modulo sizes, so that none is out of range.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loopwright as lw
import numpy as np
from random_draw import RandomDraw

__all__ = ["AliasingProgram", "draw_aliasing", "failure", "smaller"]

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float32", "float64", "int32", "int64", "int8", "bool")
LARGEST = 2000.0  # magnitude of any value, so that products are exact in float32
MOST_ELEMENTS = 400
SCOPE = {"np": np, "lw": lw}


@dataclass
class Argument:
    """How one argument is made: a base array of small integers, and the part of it that is given.
    ``same_as`` is an earlier argument that is given once more; ``indices`` are not negative."""

    dtype: str
    shape: tuple[int, ...]
    part: str
    seed: int
    same_as: int | None = None
    indices: bool = False

    def base(self) -> Array:
        low, high = (0, 12) if self.indices else (-3, 4)
        values = np.random.default_rng(self.seed).integers(low, high, self.shape)
        return values.astype(self.dtype)

    def of(self, base: Array) -> Array:
        found = eval(f"a{self.part}", {"a": base})
        assert isinstance(found, np.ndarray)
        return found


@dataclass
class AliasingProgram:
    """``raises``: NumPy refuses the last statement."""

    arguments: list[Argument]
    statements: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    raises: bool = False

    def text(self) -> str:
        names = ", ".join(f"x{i}" for i in range(len(self.arguments)))
        result = ", ".join(self.results)
        body = [*self.statements, f"return [{result}]"]
        return "\n    ".join([f"def program({names}):", *body])

    def function(self) -> Callable[..., Any]:
        scope = dict(SCOPE)
        exec(self.text(), scope)
        return scope["program"]

    def memory(self) -> tuple[list[Array], list[Array]]:
        """The arguments, and the arrays that they are parts of."""
        bases = [a.base() for a in self.arguments]
        given: list[Array] = []
        for argument, base in zip(self.arguments, bases, strict=True):
            same = argument.same_as
            given.append(argument.of(base) if same is None else given[same])
        return given, bases

    def __repr__(self) -> str:
        lines = [
            f"x{i} = {a.dtype}{list(a.shape)}{a.part}"
            + (f" = x{a.same_as}" if a.same_as is not None else "")
            for i, a in enumerate(self.arguments)
        ]
        return "\n".join([*lines, self.text(), *(["# raises"] if self.raises else [])])


PARTS = ("", "", "", "[::2]", "[..., ::-1]", ".T", "[..., 1:]", ".swapaxes(0, -1)", "[()]")


class _Drawing:
    def __init__(self, draw: RandomDraw) -> None:
        self.draw = draw
        self.pick, self.between = draw.pick, draw.between
        self.count = 0
        shapes = [self._shape() for _ in range(self.between(1, 3))]
        if self.between(0, 1):  # equal shapes meet more often
            shapes = [shapes[0]] * len(shapes)
        self.program = AliasingProgram(
            [
                Argument(self.pick(DTYPES), shape, self.pick(PARTS) if shape else "", n + 1)
                for n, shape in enumerate(shapes)
            ]
        )
        for number, argument in enumerate(self.program.arguments):
            argument.seed += 10 * self.between(0, 1000)
            if number and self.between(0, 9) == 0:
                argument.same_as = number - 1
        self.indices = f"x{len(shapes)}"
        seed = self.between(0, 1000)
        self.program.arguments.append(Argument("int64", (4,), "", seed, indices=True))
        given, _ = self.program.memory()
        self.values: dict[str, Any] = {f"x{i}": a for i, a in enumerate(given)}

    def _shape(self) -> tuple[int, ...]:
        return tuple(self.between(1, 5) for _ in range(self.pick((0, 1, 1, 2, 2, 2, 3))))

    def name(self) -> str:
        return self.pick(sorted(self.values.keys() - {self.indices}))

    def array(self) -> str:
        arrays = {n for n, v in self.values.items() if isinstance(v, np.ndarray)}
        names = sorted(arrays - {self.indices})
        return self.pick(names) if names else self.name()

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}" if self.between(0, 4) else self.name()

    def index(self, size: int) -> str:
        """An index of which compiled code does not know the value, or an array of some."""
        k = self.indices
        place = f"{k}[{self.between(0, 3)}] % {size}"
        match self.between(0, 9):
            case 0 | 1 | 2:
                return place
            case 3:
                return f"{place} - {size}"
            case 4 | 5:
                width = self.between(0, size)
                start = f"{k}[{self.between(0, 3)}] % {size - width + 1}"
                return f"{start}:{start} + {width}{self.pick(('', '', ':2'))}"
            case 6:
                return f"{k}[{self.between(0, 3)}:] % {size}"
            case 7:
                return f"{k}[[{self.between(0, 3)}, {self.between(0, 3)}]] % {size}"
            case 8:
                return f"{k}[:2, None] % {size}"
            case _:
                return f"[{self.between(-size, size - 1)}, {self.between(-size, size - 1)}]"

    def key(self, value: Any) -> str:
        """An index."""
        items: list[str] = []
        often = self.pick((0, 0, 1, 3))  # of four
        for size in getattr(value, "shape", ()):
            kind = self.between(0, 6)
            if size and self.between(0, 3) < often:
                items.append(self.index(size))
            elif kind == 0:
                items.append(str(self.between(-size, size - 1) if size else 0))
            elif kind <= 3:
                low, high = self.between(-size - 1, size), self.between(-size, size + 1)
                step = self.pick(("", ":2", ":-1", ":3", ":-2"))
                a, b = self.pick(("", str(low))), self.pick(("", str(high)))
                items.append(f"{a}:{b}{step}")
            elif kind == 4:
                items.append("None")
            elif kind == 5:
                break
            else:
                items.append(":")
        if self.between(0, 3) == 0 or not items:
            items.append("...")
        return ", ".join(items)

    def expression(self) -> str:
        """A value without a name."""
        name = self.name()
        match self.between(0, 7):
            case 0:
                return str(self.between(-2, 3))
            case 1:
                return f"np.float64({self.between(0, 2)})"
            case 2:
                return f"({name} {self.pick('+-*')} {self.name()})"
            case 3:
                return f"{name}[{self.key(self.values[name])}]"
            case 4:
                return f"{name}.sum()"
            case 5:
                return f"np.maximum({name}, {self.between(-1, 1)})"
            case _:
                return name

    def view(self) -> str:
        name = self.array()
        value = self.values[name]
        rank, size = np.ndim(value), np.size(value)
        axis = self.between(-rank, rank - 1) if rank else 0
        match self.between(0, 15):
            case 0 | 1 | 2 | 3:
                return f"{name}[{self.key(value)}]"
            case 4:
                return f"{name}.T"
            case 5:
                return f"{name}.reshape(-1)"
            case 6:
                return f"{name}.reshape({self.pick((1, 2, 3))}, -1)"
            case 7:
                return f"{name}.ravel()"
            case 8:
                return f"np.swapaxes({name}, 0, {axis})"
            case 9:
                return f"np.expand_dims({name}, {axis})"
            case 10:
                return f"np.flip({name}, {self.pick((None, axis))})"
            case 11:
                return f"{name}.squeeze()"
            case 12:
                return f"np.array_split({name}, 2, axis={axis})[{self.between(0, 1)}]"
            case 13:
                return f"np.moveaxis({name}, 0, -1)" if size else f"{name}.real"
            case 14:
                return self.pick((f"np.broadcast_to({name}, (2, *{name}.shape))", f"{name}.real"))
            case _:
                return self.pick((name, f"np.atleast_2d({name})", f"np.diagonal({name})"))

    def copy(self) -> str:
        name = self.name()
        if not np.ndim(self.values[name]):
            return self.pick((f"{name}.copy()", f"{name} + 1", f"{name}[...]", f"+{name}"))
        dtype = self.pick(("np.float32", "np.int64", "np.float64"))
        return self.pick(
            (
                f"{name}.copy()",
                f"{name}.astype({dtype})",
                f"{name}.astype({dtype}, copy=False)",
                f"{name}.flatten()",
                f"+{name}",
                f"{name} + 1",
                f"{name} * {self.name()}",
                f"np.where({name} > 0, {name}, {self.name()})",
                f"np.take({name}, [0], axis=0)",
                f"{name}[[0]]",
                f"{name}[..., [0, -1]]",
                f"np.concatenate([{name}, {name}])",
                f"np.stack([{name}, {name}])",
                f"{name}.sum(axis=0)",
                f"np.zeros_like({name})",
                f"np.clip({name}, -1, 1)",
                f"{name}.max(axis=-1)",
            )
        )

    def write(self) -> str:
        name = self.array()
        value = self.values[name]
        operator = self.pick(("+", "+", "-", "*", "//", "&", "|"))
        key = self.key(value)
        match self.between(0, 18):
            case 15 | 16:
                function = self.pick(("add", "add", "subtract", "multiply", "minimum", "maximum"))
                return f"np.{function}.at({name}, ({key},), {self.expression()})"
            case 17:
                function = self.pick(("set", "add", "min", "apply"))
                value = "np.square" if function == "apply" else self.expression()
                return f"{self.new()} = lw.at({name})[{key}].{function}({value})"
            case 18:
                size = max(1, np.size(value))
                other = f"np.fill_diagonal({name}, {self.between(-2, 2)})"
                put = f"np.put({name}, {self.indices}[:{self.between(1, 4)}] % {size}, [1, 2])"
                part = f"{name}[{name}[:, 0] > {self.between(-1, 1)}, {self.between(-1, 0)}]"
                masked = f"{part} {self.pick(('', '+'))}= {self.between(-2, 2)}"
                return self.pick((other, put, masked))
            case 0 | 1 | 2:
                return f"{name} {operator}= {self.expression()}"
            case 3 | 4:
                return f"{name}[{key}] {operator}= {self.expression()}"
            case 5 | 6 | 7:
                return f"{name}[{key}] = {self.expression()}"
            case 8:
                how = self.pick(("", "+", "*"))
                return f"{name}[{name} > {self.between(-1, 1)}] {how}= {self.expression()}"
            case 9:
                function = self.pick(("add", "subtract", "maximum", "multiply"))
                where = self.pick(("", f", where={name} > 0"))
                return f"np.{function}({self.name()}, {self.expression()}, out={name}{where})"
            case 10:
                # not negative: NumPy 2.4 is wrong where that reads and writes one strided array
                return f"np.square({self.name()}, out={name})"
            case 11:
                return f"np.copyto({name}, {self.expression()})"
            case 12:
                return f"{name}.fill({self.between(-2, 2)})"
            case 13:
                return f"for r in {name}: r {operator}= {self.expression()}"
            case _:
                return f"for r in {name}.T: r[...] = {self.expression()}"

    def statement(self) -> str:
        kind = self.between(0, 9)
        if kind < 4:
            return f"{self.new()} = {self.view()}"
        return f"{self.new()} = {self.copy()}" if kind < 5 else self.write()

    def is_sound(self) -> bool:
        """Whether all values are small enough to be exact."""
        arrays = [np.asarray(v) for v in self.values.values()]
        return all(
            a.dtype.kind in "fib"
            and a.size <= MOST_ELEMENTS
            and a.ndim <= 5
            and (
                not a.size
                or np.abs(a.astype(np.float64)).max() <= (100 if a.itemsize == 1 else LARGEST)
            )
            for a in arrays
        )

    def take(self, statement: str) -> bool:
        """Run a statement; False, with nothing changed, where NumPy refuses it."""
        scope = {**SCOPE, **self.values}
        before = {id(v): (v, v.copy()) for v in self.values.values() if isinstance(v, np.ndarray)}
        known = dict(self.values)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                exec(statement, scope)
                scope.pop("r", None)
                self.values = {n: v for n, v in scope.items() if n not in SCOPE and n[0] != "_"}
                if self.is_sound():
                    self.program.statements.append(statement)
                    return True
                refused = False
            except (ValueError, TypeError, IndexError):
                refused = True
            except Exception:  # OverflowError depends on values
                refused = False
        self.values = known
        computed = f"{self.indices}[" in statement or ".at(" in statement
        if (
            refused
            and not computed
            and self.between(0, 5) == 0
            and "= np.array_split" not in statement
        ):
            self.program.statements.append(statement)
            self.program.raises = True
            return True
        for value, old in before.values():
            if value.flags.writeable:
                value[...] = old
        return False

    def run(self, length: int) -> AliasingProgram:
        attempts = 0
        program = self.program
        while len(program.statements) < length and attempts < 10 * length and not program.raises:
            attempts += 1
            self.take(self.statement())
        names = sorted(self.values.keys() - {self.indices})
        program.results = [self.pick(names) for _ in range(self.between(1, 3))]
        return program


def draw_aliasing(draw: RandomDraw, most: int = 10) -> AliasingProgram:
    """A program of 2 to ``most`` statements."""
    return _Drawing(draw).run(draw.between(2, most))


def failure(program: AliasingProgram, compiler: Callable[..., Any] = lw.compile) -> str:
    """What compiled code does otherwise than NumPy, or nothing. ``"refused"`` where it says that it
    cannot do it."""
    function = program.function()
    plain, plain_bases = program.memory()
    given, bases = program.memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = function(*plain)
        except (ValueError, TypeError, IndexError, OverflowError):
            wanted = None
        try:
            found = compiler(function)(*given)
        except lw.UnsupportedError:
            return "refused" if wanted is not None else ""
        except lw.LoopwrightError as error:
            if "read-only" in str(error) and any(not a.flags.c_contiguous for a in given):
                return "refused"  # a reshape that is a view for arrays in C order
            return "" if wanted is None else f"{type(error).__name__}: {error}"
    if wanted is None:
        return "is not refused"
    for number, (want, got) in enumerate(zip(wanted, found, strict=True)):
        a, b = np.asarray(want), np.asarray(got)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {number} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
        if not np.array_equal(a, b):
            return f"result {number} is {b.tolist()}, not {a.tolist()}"
    for number, (want, got) in enumerate(zip(plain_bases, bases, strict=True)):
        if not np.array_equal(want, got):
            return f"argument {number} holds {got.tolist()}, not {want.tolist()}"
    return ""


def smaller(program: AliasingProgram, compiler: Callable[..., Any]) -> AliasingProgram:
    """A part of a program that fails as well, with as few statements and results as possible."""

    def fails(candidate: AliasingProgram) -> bool:
        try:
            return failure(candidate, compiler) not in ("", "refused")
        except Exception:
            return False

    again = True
    while again:
        again = False
        cuts = [
            AliasingProgram(program.arguments, [*s[:i], *s[i + 1 :]], program.results)
            for s in (program.statements,)
            for i in range(len(s))
        ] + [
            AliasingProgram(program.arguments, program.statements, [*r[:i], *r[i + 1 :]])
            for r in (program.results,)
            for i in range(len(r))
        ]
        for cut in cuts:
            if fails(cut):
                program, again = cut, True
                break
    return program
