"""Parallel loops: each becomes a function of its own that the thread pool calls."""

from __future__ import annotations

from ...ir.loop.nest import Accumulate, Loop, Sort, Store, statements
from ..llvm.writer import FunctionWriter, Value
from .memory import Env, Place
from .nests import NestEmitter


class ParallelWriter:
    """Writes each parallel loop as a function ``(context, begin, end)`` for the thread pool, or for
    the calling thread where ``serial`` is true at run time. What a context holds is 8 bytes apart
    on every target."""

    def __init__(self, name: str, serial: Value | None = None) -> None:
        self.name = name
        self.serial = serial
        self.functions: list[FunctionWriter] = []
        self.context: Value | None = None

    def write(self, outer: NestEmitter, loop: Loop) -> None:
        """Emits the function of the loop, and in ``outer`` its call by ``lw_parallel_for``."""
        names = [n for n, p in outer.places.items() if p.base.depth == 0]
        w = outer.w
        if self.context is None:
            self.context = w.alloca("i64", len(names) + len(outer.sizes))
            held = [*(outer.places[name].base for name in names), *outer.sizes.values()]
            for slot, value in enumerate(held):
                where = w.offset(self.context, "i64", None, slot)
                w.once(f"store {value}, {where}, align 8", 0)
        symbol = f"{self.name}.parallel{len(self.functions)}"
        inner = FunctionWriter(symbol, "ptr %context, i64 %begin, i64 %end", most=w.most)
        self.functions.append(inner)
        places: dict[str, Place] = {}
        for slot, name in enumerate(names):
            source = outer.places[name]
            base = _held(inner, slot, "base", "ptr")
            places[name] = Place(source.buffer, base, source.written)
        sizes = {
            name: _held(inner, len(names) + slot, "size", "i64")
            for slot, name in enumerate(outer.sizes)
        }
        emitter = type(outer)(outer.target, inner, places, sizes, outer.scalars.functions, None)
        emitter.ranges = dict(outer.ranges)
        start, end = Value("%begin", "i64"), Value("%end", "i64")

        def body(index: Value, _: dict[str, Value]) -> dict[str, Value]:
            emitter.body(loop.body, Env({**sizes, loop.var: index}))
            return {}

        inner.loop(end, {}, body, start)
        w.calls.add("declare void @lw_parallel_for(ptr, ptr, i64)")
        count = outer.memory.index(loop.extent, Env(outer.sizes))
        handed = f"ptr @{symbol}, {self.context}, {count}"
        if self.serial is None:
            w.line(f"call void @lw_parallel_for({handed})")
        else:
            w.line(f"call void @lw_loop_on({handed}, {self.serial})")
        outer.touch(
            {s.buffer for s in statements(loop.body) if isinstance(s, Store | Accumulate | Sort)}
        )


def _held(w: FunctionWriter, slot: int, prefix: str, type: str) -> Value:
    """Returns what a slot of the context holds."""
    where = w.offset(Value("%context", "ptr"), "i64", None, slot)
    value = Value(w.fresh(prefix), type)
    w.line(f"{value.name} = load {type}, {where}, align 8")
    return value
