"""Writes one LLVM function as text, with value numbering and loop-invariant code motion built in.

Every value knows the loop level it depends on. An instruction is written at the deepest level of
its operands, before the loops inside that level, and the same instruction on the same operands is
never written twice: what LLVM's passes would have to undo is not made in the first place, and the
text stays short. (Writing text takes 0.2 us an instruction; llvmlite's builder takes 8.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ...ir.dataclass import dataclass
from ...ir.dtype import LLVM_TYPES
from ...ir.errors import ScheduleError
from .text import full_type, overload

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Value(NamedTuple):
    """An SSA value or literal: its element type, and the loop level it lives at."""

    name: str
    type: str
    lanes: int = 1
    depth: int = 0

    @property
    def full_type(self) -> str:
        return full_type(self.type, self.lanes)

    def __str__(self) -> str:
        return f"{full_type(self.type, self.lanes)} {self.name}"


@dataclass
class _Level:
    """A region of code that control flow enters as a whole: the function's entry, or a loop's body.

    ``guard`` is the depth of the innermost level around it that runs under a condition.
    ``values`` are the pure values emitted here, which later uses share. ``counter`` is the variable
    of the loop whose body it is, and ``steps`` its multiples by their factors.
    """

    label: str
    guard: int
    counter: str = ""
    steps: dict[int, Value] = field(default_factory=dict)
    holds_loops: bool = False
    code: list[str] = field(default_factory=list)
    values: dict[Hashable, Value] = field(default_factory=dict)
    notes: dict[Hashable, Any] = field(default_factory=dict)


Compute: TypeAlias = "Callable[[], Sequence[Value]]"

POISON = "poison"  # the name of a value that is never used
_SCALES = (1, 2, 4, 8)  # factors of an index register in an address

_UNLIKELY = '!prof !{!"branch_weights", i32 1, i32 1000000}'
_COLD = _UNLIKELY.replace("1000000", "1000")


@cache
def _mask(lanes: tuple[int, ...]) -> str:
    """The literal of a shuffle's mask, in which negative numbers are poison."""
    if not any(lanes):
        return f"<{len(lanes)} x i32> zeroinitializer"
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {l if l >= 0 else POISON}' for l in lanes)}>"


class FunctionWriter:
    """One function under construction; ``levels[0]`` is its entry block.

    Raises ScheduleError when there are more than ``most`` values.
    """

    def __init__(
        self, name: str, params: str, *, attributes: str = "nounwind", most: int | None = None
    ) -> None:
        self.most = most or sys.maxsize
        self.name, self.params, self.attributes = name, params, attributes
        self.prefix = "v"  # of the names of values
        self.levels = [_Level("entry", 0)]
        self.allocas: list[str] = []
        self.calls: set[str] = set()
        self._declared: set[str] = set()  # intrinsics whose declaration is among ``calls``
        self.streams = False
        self._tiles: dict[bytes, str] = {}  # shapes of tile registers, and the constant they are in
        self._count = 0
        self._floor = 0  # no value is written outside of this level
        self.result: Value | None = None

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    @property
    def guard_depth(self) -> int:
        """Depth of the innermost level under a condition: loads must not be hoisted above it."""
        return self.levels[-1].guard

    def fresh(self, prefix: str = "") -> str:
        self._count += 1
        if self._count > self.most:
            raise ScheduleError(f"the kernel has more than {self.most} values")
        return f"%{prefix or self.prefix}{self._count}"

    # -- instructions --------------------------------------------------------------------------

    def pure(self, text: str, type: str, lanes: int, depth: int, key: Hashable = None) -> Value:
        """A value without effects, written once, at ``depth``: equal texts and keys are one value.
        A ``key`` tells texts apart that depend on what is in memory."""
        depth = max(depth, self._floor)
        level = self.levels[depth]
        number: Hashable = text if key is None else (text, key)
        value = level.values.get(number)
        if value is None:
            name = self.fresh()
            value = level.values[number] = Value(name, type, lanes, depth)
            level.code.append(f"  {name} = {text}")
        return value

    def op(self, opcode: str, *args: Value, type: str | None = None) -> Value:
        """``opcode type a, b``: an instruction whose operands and result have one type."""
        first = args[0]
        names = ", ".join([a.name for a in args])
        text = f"{opcode} {full_type(first.type, first.lanes)} {names}"
        return self.pure(text, type or first.type, first.lanes, max([a.depth for a in args]))

    def note(self, key: Hashable, depth: int, value: Any) -> None:
        """Keeps something made of values, for as long as the values at ``depth`` may be used."""
        self.levels[depth].notes[key] = value

    def noted(self, key: Hashable) -> Any:
        """Returns the note under ``key`` in an enclosing level; None if there is none."""
        for level in reversed(self.levels):
            if key in level.notes:
                return level.notes[key]
        return None

    def convert(self, opcode: str, value: Value, type: str) -> Value:
        """``opcode from-type value to type`` on every lane."""
        return self.pure(
            f"{opcode} {value} to {full_type(type, value.lanes)}", type, value.lanes, value.depth
        )

    def select(
        self, condition: Value, then: Value, orelse: Value, *, unlikely: bool = False
    ) -> Value:
        """``then`` or ``orelse``; behind a jump that skips ``then`` if that is ``unlikely``."""
        depth = max(condition.depth, then.depth, orelse.depth)
        text = f"select {condition}, {then}, {orelse}{f', {_UNLIKELY}' if unlikely else ''}"
        return self.pure(text, then.type, then.lanes, depth)

    def call(self, symbol: str, *args: Value, type: str, lanes: int, flags: str = "") -> Value:
        """Emits a call of a function without effects; intrinsics are declared as well."""
        result = full_type(type, lanes)
        if symbol not in self._declared and symbol.startswith("llvm."):
            self._declared.add(symbol)
            signature = ", ".join(a.full_type for a in args)
            self.calls.add(f"declare {result} @{symbol}({signature})")
        handed = ", ".join([f"{full_type(t, n)} {name}" for name, t, n, _ in args])
        text = f"call {flags}{result} @{symbol}({handed})"
        return self.pure(text, type, lanes, max([a.depth for a in args], default=0))

    def intrinsic(self, name: str, *args: Value, extra: str = "") -> Value:
        """An overloaded intrinsic of the operands' type, such as ``llvm.sqrt``."""
        _, type, lanes, _ = args[0]
        symbol = f"llvm.{name}.{overload(type, lanes)}"
        if extra or symbol not in self._declared:
            flag = (Value(extra, "i1"),) if extra else ()
            return self.call(symbol, *args, *flag, type=type, lanes=lanes)
        full = full_type(type, lanes)
        text = f"call {full} @{symbol}({full} {f', {full} '.join([a.name for a in args])})"
        return self.pure(text, type, lanes, max([a.depth for a in args]))

    def splat(self, value: Value, lanes: int) -> Value:
        """The scalar in every lane."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise ScheduleError(f"a vector of {value.lanes} lanes is used as one of {lanes}")
        if not value.name.startswith("%"):
            return Value(f"splat ({value})", value.type, lanes)
        values, key = self.levels[value.depth].values, (value.name, lanes)
        wide = values.get(key)
        if wide is None:
            one = self.insert(Value("poison", value.type, lanes), value, 0)
            wide = self.shuffle(one, one._replace(name="poison", depth=0), (0,) * lanes)
            values[key] = wide
        return wide

    def extract(self, vector: Value, lane: int) -> Value:
        return self.pure(f"extractelement {vector}, i64 {lane}", vector.type, 1, vector.depth)

    def insert(self, vector: Value, element: Value, lane: int) -> Value:
        text = f"insertelement {vector}, {element}, i64 {lane}"
        return self.pure(text, vector.type, vector.lanes, max(vector.depth, element.depth))

    def shuffle(self, a: Value, b: Value, lanes: tuple[int, ...]) -> Value:
        """Lanes picked from ``a`` followed by ``b``."""
        text = f"shufflevector {a}, {b}, {_mask(lanes)}"
        return self.pure(text, a.type, len(lanes), max(a.depth, b.depth))

    def fence(self, value: Value) -> Value:
        """Returns the value behind an ``arithmetic.fence`` if it is a float: LLVM does not optimise
        across it, and it costs no instruction.
        """
        if not LLVM_TYPES[value.type].is_float:
            return value
        return self.intrinsic("arithmetic.fence", value)

    def recast(self, value: Value, type: str, lanes: int) -> Value:
        """The bits of a vector as one of other elements."""
        return self.pure(f"bitcast {value} to <{lanes} x {type}>", type, lanes, value.depth)

    def line(self, text: str) -> None:
        """Emits an instruction with an effect, at the current place."""
        self.levels[-1].code.append("  " + text)

    def once(self, text: str, depth: int) -> None:
        """Emits an instruction without a result at ``depth``, unless it is there already."""
        level = self.levels[depth]
        if ("once", text) not in level.values:
            level.values["once", text] = Value("", "void")
            level.code.append("  " + text)

    def effect(self, symbol: str, *args: Value) -> None:
        """Emits a call of an intrinsic with an effect, at the current place."""
        self.calls.add(f"declare void @{symbol}({', '.join(a.full_type for a in args)})")
        self.line(f"call void @{symbol}({', '.join(map(str, args))})")

    def configure_tiles(self, shapes: bytes) -> None:
        """Gives the tile registers shapes (the operand of LDTILECFG), which clears them.

        A function with a single configuration loads it once, at its beginning.
        """
        text = "".join(f"\\{byte:02X}" for byte in shapes)
        name = self._tiles.setdefault(shapes, f"@tiles.{shapes[16:56].hex()}")
        self.calls.add(f'{name} = internal constant [64 x i8] c"{text}", align 64')
        self.calls.add("declare void @llvm.x86.ldtilecfg(ptr)")
        self.calls.add("declare void @llvm.x86.tilerelease()")
        self.line(f"call void @llvm.x86.ldtilecfg(ptr {name})")

    def alloca(self, type: str, count: int, align: int = 64) -> Value:
        """``count`` elements on the stack, for the life of the function."""
        name = self.fresh("stack")
        self.allocas.append(f"  {name} = alloca {type}, i64 {max(1, count)}, align {align}")
        return Value(name, "ptr")

    # -- integers ------------------------------------------------------------------------------

    def int(self, value: int, type: str = "i64") -> Value:
        return Value(str(value), type)

    def add(self, a: Value, b: Value) -> Value:
        if a.name == "0":
            return b
        return a if b.name == "0" else self.op("add", a, b)

    def scale(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.op("mul", value, self.int(factor))

    def positive(self, value: Value) -> Value:
        """An integer that has to be positive; something positive where it is not."""
        return self.intrinsic("smax", value, self.int(1))

    def is_counter(self, value: Value) -> bool:
        """True if a value counts the iterations of a loop."""
        return self.levels[value.depth].counter == value.name

    def along(self, base: Value, counter: Value, stride: int) -> Value:
        """The address ``stride * counter`` bytes behind ``base``, where each iteration of the
        counter's loop adds ``stride``."""
        if stride in _SCALES:
            return self._gep(base, f"i{8 * stride}", counter)
        steps = self.levels[counter.depth].steps
        if stride not in steps:
            steps[stride] = Value(self.fresh("o"), "i64", 1, counter.depth)
        return self._gep(base, "i8", steps[stride])

    def offset(self, base: Value, type: str, index: Value | None, constant: int) -> Value:
        """The address of element ``index + constant`` behind ``base``."""
        if index is not None and index.name != "0":
            base = self._gep(base, type, index)
        if not constant:
            return base
        text = f"getelementptr {type}, ptr {base.name}, i64 {constant}"
        return self.pure(text, "ptr", 1, base.depth)

    def _gep(self, base: Value, type: str, index: Value) -> Value:
        text = f"getelementptr {type}, ptr {base.name}, i64 {index.name}"
        return self.pure(text, "ptr", 1, max(base.depth, index.depth))

    # -- control flow --------------------------------------------------------------------------

    def loop(
        self,
        extent: int | Value,
        carried: dict[K, Value],
        body: Callable[[Value, dict[K, Value]], dict[K, Value]],
        start: Value | None = None,
    ) -> dict[K, Value]:
        """A counted loop that runs at least once; ``carried`` values pass to the next iteration.

        ``body(index, values)`` writes the body and gives the values at its end, which are those of
        ``carried`` and maybe others.
        """
        parent = self.levels[-1]
        self._count += 1
        head, leave = f"loop{self._count}", f"done{self._count}"
        for level in self.levels:
            level.holds_loops = True
        self.levels.append(_Level(head, self.guard_depth))
        depth = self.depth
        index = Value(self.fresh("i"), "i64", 1, depth)
        self.levels[-1].counter = index.name
        phis = {k: Value(self.fresh("c"), v.type, v.lanes, depth) for k, v in carried.items()}
        ends = body(index, phis)
        level, before = self.levels.pop(), parent.label
        first = start.name if start else "0"
        lines = [
            f"  br label %{head}",
            f"{head}:",
            f"  {index.name} = phi i64 [{first}, %{before}], [{index.name}.next, %{level.label}]",
        ]
        following = [ends[key] for key in phis], level.label
        lines += self._phis([*phis.values()], ([*carried.values()], before), following)
        counters = {1: index}
        products: list[str] = []
        for factor, value in level.steps.items():
            if level.holds_loops:  # a multiplication is cheaper there than a register
                products.append(f"  {value.name} = mul i64 {index.name}, {factor}")
                continue
            begun = self.scale(start, factor) if start else self.int(0)
            moved = [value._replace(name=f"{value.name}.next")], level.label
            lines += self._phis([value], ([begun], before), moved)
            counters[factor] = value
        last = extent.name if isinstance(extent, Value) else str(extent)
        flag = self.fresh("more")
        lines += [*products, *level.code]
        for factor, value in counters.items():
            lines += [
                f"  {value.name}.sum = add i64 {value.name}, {factor}",
                f"  {value.name}.next = call i64 @llvm.expect.i64(i64 {value.name}.sum, i64 0)",
            ]
        self.calls.add("declare i64 @llvm.expect.i64(i64, i64)")
        lines += [
            f"  {flag} = icmp ult i64 {index.name}.next, {last}",
            f"  br i1 {flag}, label %{head}, label %{leave}",
            f"{leave}:",
        ]
        parent.code += lines
        parent.label = leave
        return {k: Value(v.name, v.type, v.lanes, min(v.depth, depth - 1)) for k, v in ends.items()}

    def loop_if_any(
        self,
        extent: Value,
        carried: dict[K, Value],
        body: Callable[[Value, dict[K, Value]], dict[K, Value]],
    ) -> dict[K, Value]:
        """A ``loop`` that is skipped if ``extent`` is zero: ``carried`` values pass as they are,
        others are zero then. Loads are not hoisted out of it."""
        ends: dict[K, Value] = {}
        usual: list[Value] = []

        def compute() -> list[Value]:
            ends.update(self.loop(extent, carried, body))
            zeros = ((k, v._replace(name="zeroinitializer")) for k, v in ends.items())
            usual.extend(carried.get(key, zero) for key, zero in zeros)
            return [*ends.values()]

        some = self.op("icmp sgt", extent, self.int(0), type="i1")
        return dict(zip(ends, self.where(some, compute, usual)))

    def repeat(
        self,
        state: Sequence[Value],
        unfinished: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``while unfinished(state): state = body(state)``; nothing is moved out of it."""
        parent, floor = self.levels[-1], self._floor
        self._count += 1
        test, inside, after = (f"{part}{self._count}" for part in ("test", "inside", "after"))
        level = _Level(test, self.guard_depth)
        self.levels.append(level)
        self._floor = self.depth
        now = [Value(self.fresh("s"), v.type, v.lanes, self.depth) for v in state]
        flag = unfinished(now)
        level.code += [f"  br i1 {flag.name}, label %{inside}, label %{after}", f"{inside}:"]
        level.label = inside
        following = body(now)
        self.levels.pop()
        self._floor = floor
        parent.code += [f"  br label %{test}", f"{test}:"]
        parent.code += self._phis(now, (state, parent.label), (following, level.label))
        parent.code += [*level.code, f"  br label %{test}", f"{after}:"]
        parent.label = after
        return [value._replace(depth=self.depth) for value in now]

    @staticmethod
    def _phis(values: Sequence[Value], *ways: tuple[Sequence[Value], str]) -> list[str]:
        """The lines of values that are others by the ``ways`` here, each with a label."""
        names = [[f"[{value.name}, %{label}]" for value in given] for given, label in ways]
        phis = zip(values, zip(*names, strict=True), strict=True)
        return [f"  {v.name} = phi {v.full_type} {', '.join(given)}" for v, given in phis]

    def rarely(self, condition: Value, usual: Value, symbol: str, *args: Value) -> Value:
        """``usual``, or where ``condition`` holds the result of a call that is made only then."""
        depth = max(self.guard_depth, *(v.depth for v in (condition, usual, *args)))
        level = self.levels[depth]
        self._count += 1
        rare, join = f"rare{self._count}", f"usual{self._count}"
        made = usual._replace(name=self.fresh())
        result = usual._replace(name=self.fresh("c"), depth=depth)
        level.code += [
            f"  br i1 {condition.name}, label %{rare}, label %{join}, {_UNLIKELY}",
            f"{rare}:",
            f"  {made.name} = call {usual.full_type} @{symbol}({', '.join(map(str, args))})",
            f"  br label %{join}",
            f"{join}:",
            *self._phis([result], ([usual], level.label), ([made], rare)),
        ]
        level.label = join
        return result

    def where(
        self, condition: Value, compute: Compute, usual: Sequence[Value], *, cold: bool = False
    ) -> list[Value]:
        """The values computed where ``condition`` holds, and only there; else ``usual``. Nothing
        that a ``cold`` branch computes is moved out of it."""
        parent = self.levels[-1]
        self._count += 1
        inside, join = f"if{self._count}", f"join{self._count}"
        level, made = self._branch(inside, compute, cold)
        results = [Value(self.fresh("c"), v.type, v.lanes, self.depth) for v in made]
        unlikely = f", {_COLD}" if cold else ""
        parent.code += [
            f"  br i1 {condition.name}, label %{inside}, label %{join}{unlikely}",
            f"{inside}:",
            *level.code,
            f"  br label %{join}",
            f"{join}:",
            *self._phis(results, (usual, parent.label), (made, level.label)),
        ]
        parent.label = join
        return results

    def _branch(self, label: str, compute: Callable[[], T], cold: bool = False) -> tuple[_Level, T]:
        """The code that computes something under a condition."""
        level, floor = _Level(label, len(self.levels)), self._floor
        self.levels.append(level)
        self._floor = self.depth if cold else floor
        made = compute()
        self._floor = floor
        self.levels.pop()
        return level, made

    def branch(
        self, condition: Value, then: Callable[[], None], orelse: Callable[[], None] | None
    ) -> None:
        """``if``: nothing but memory carries results out of the branches."""
        parent = self.levels[-1]
        self._count += 1
        number = self._count
        lines = [
            f"  br i1 {condition.name}, label %then{number}, "
            f"label %{'else' if orelse else 'join'}{number}"
        ]
        for label, body in ((f"then{number}", then), (f"else{number}", orelse)):
            if body is None:
                continue
            level, _ = self._branch(label, body)
            lines += [f"{label}:", *level.code, f"  br label %join{number}"]
        parent.code += [*lines, f"join{number}:"]
        parent.label = f"join{number}"

    def text(self, *, linkage: str = "") -> str:
        """The whole ``define``."""
        type = "void" if self.result is None else self.result.full_type
        head = f"define {linkage}{type} @{self.name}({self.params}) {self.attributes} {{\nentry:\n"
        body = "\n".join([*self.allocas, *self.levels[0].code])
        fence = "  fence seq_cst\n" if self.streams else ""  # streamed stores are not ordered
        if len(self._tiles) == 1:
            line = f"  call void @llvm.x86.ldtilecfg(ptr {next(iter(self._tiles.values()))})\n"
            body = line + body.replace(line, "")
        release = "  call void @llvm.x86.tilerelease()\n" if self._tiles else ""
        return f"{head}{body}\n{fence}{release}  ret {self.result or 'void'}\n}}\n"
