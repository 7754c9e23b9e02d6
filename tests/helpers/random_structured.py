"""Random programs with loops, branches and functions, as a graph gives them, and their kernels.

Every value has memory of its own; carried values are copied in before a loop and at the end of its
body, results of branches are copied out of them. All values are int64 arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from loopwright.ir.dtype import BOOL, INT64, Array
from loopwright.ir.program.nodes import (
    Access,
    Alias,
    Alloc,
    Call,
    Copy,
    For,
    Free,
    If,
    Instr,
    Invoke,
    Operand,
    Program,
    Region,
    Update,
    While,
)

__all__ = ["KERNELS", "is_in_place", "structured_programs"]

PRIME = 1_000_003
SHAPES = [(), (), (3,), (40,), (2, 20)]


def _mixed(*operands: Array) -> Array:
    """Depends on every element and operand, and on their order."""
    total = np.zeros(operands[-1].shape, np.int64)
    for n, operand in enumerate(operands):
        total = (total * 31 + np.resize(operand, total.shape) * (n + 2) + 7) % PRIME
    return total


def _map(*operands: Array) -> None:
    """Element by element, so that the result may overwrite an operand."""
    operands[-1][...] = _mixed(*operands[:-1])


def _other(*operands: Array) -> None:
    """Reads after it has written: what shares memory shows."""
    *sources, target = operands
    target[...] = -1
    target[...] = _mixed(*(np.resize(s.ravel()[::-1], target.shape) for s in sources))


def _set(*operands: Array) -> None:
    """Changes one element of the last operand, which begins as what it is."""
    *sources, target = operands
    flat = target.reshape(-1)
    flat[int(sources[0].ravel()[0]) % flat.size] = _mixed(*sources).ravel()[0]


def _test(source: Array, target: Array) -> None:
    target[...] = source.sum() % 2 == 0


def _less(one: Array, other: Array, target: Array) -> None:
    target[...] = one < other


def _next(source: Array, target: Array) -> None:
    target[...] = source + 1


def _last(source: Array, target: Array) -> None:
    target[...] = source - 1


def _few(source: Array, target: Array) -> None:
    target[...] = source.sum() % 4


KERNELS: dict[str, Callable[..., None]] = {
    "map": _map,
    "other": _other,
    "set": _set,
    "test": _test,
    "less": _less,
    "next": _next,
    "last": _last,
    "few": _few,
}


def is_in_place(call: Call, read: int, written: int, begin: int = 0) -> bool:
    """The rule for these kernels."""
    return call.kernel in ("map", "next", "last")


@st.composite
def structured_programs(draw: st.DrawFn) -> Program:
    """A program with inputs ``x0`` (a scalar) and ``x1`` (40 elements). Its last result may be
    the new value of ``x1``."""
    inputs = (Region("x0", (), INT64), Region("x1", (40,), INT64))
    functions = [_function(draw, n) for n in range(draw(st.integers(0, 2)))]
    maker = _Maker(draw, inputs, functions)
    maker.block(3)
    program = maker.program("main", draw(st.integers(1, 3)), tuple(functions))
    result = program.outputs[-1]
    if result.shape != (40,):
        return program
    return replace(program, updates=(Update("x1", result.name),))


def _function(draw: st.DrawFn, number: int) -> Program:
    """A function of a count and an array. It may call itself, twice maybe, with the count less
    one."""
    name = f"f{number}"
    count, x = Region("n", (), INT64), Region("x", (40,), INT64)
    maker = _Maker(draw, (count, x), [])
    result = Region("result", (40,), INT64)
    maker.add(Alloc(result))
    more = maker.call("less", [maker.index(0), count], Region(maker.name("more"), (), BOOL))
    then = maker.nested()
    then.block(1)
    for _ in range(draw(st.integers(0, 2))):
        fewer = then.call("last", [count], then.region(()))
        made = then.region((40,))
        then.add(Alloc(made))
        given = draw(st.sampled_from([v for v in then.values if v.shape == (40,)]))
        then.add(Invoke(name, _operands([fewer, given], made)))
        then.values.append(made)
        then.block(1)
    then.add(Copy(then.pick((40,)).name, result.name))
    orelse = maker.nested()
    orelse.block(1)
    orelse.add(Copy(orelse.pick((40,)).name, result.name))
    maker.add(If(more.name, then.closed(), orelse.closed()))
    maker.values.append(result)
    return maker.program(name, 1, (), [result])


def _operands(sources: Sequence[Region], target: Region) -> tuple[Operand, ...]:
    ins = (Operand(Access.IN, s.name) for s in sources)
    return (*ins, Operand(Access.OUT, target.name))


class _Maker:
    """Writes one block. ``values`` are the regions that are written."""

    def __init__(
        self,
        draw: st.DrawFn,
        values: Sequence[Region],
        functions: Sequence[Program],
        names: list[int] | None = None,
    ) -> None:
        self.draw = draw
        self.inputs = tuple(values)
        self.values = list(values)
        self.functions = functions
        self.names = [0] if names is None else names
        self.body: list[Instr] = []

    def nested(self) -> _Maker:
        return _Maker(self.draw, self.values, self.functions, self.names)

    def add(self, instr: Instr) -> None:
        self.body.append(instr)

    def name(self, base: str = "v") -> str:
        self.names[0] += 1
        return f"{base}{self.names[0]}"

    def region(self, shape: tuple[int, ...]) -> Region:
        return Region(self.name(), shape, INT64)

    def closed(self) -> tuple[Instr, ...]:
        frees = (Free(i.region.name) for i in self.body if isinstance(i, Alloc))
        return (*self.body, *frees)

    def program(
        self,
        name: str,
        count: int,
        functions: tuple[Program, ...],
        results: Sequence[Region] = (),
    ) -> Program:
        results = results or [self.draw(st.sampled_from(self.values)) for _ in range(count)]
        outputs = tuple(Region(f"y{n}", r.shape, r.dtype) for n, r in enumerate(results))
        for source, output in zip(results, outputs, strict=True):
            self.add(Copy(source.name, output.name))
        body = self.closed()
        return Program(name, self.inputs, outputs, (), body, functions=functions)

    def call(self, kernel: str, sources: Sequence[Region], target: Region) -> Region:
        self.add(Alloc(target))
        self.add(Call(kernel, _operands(sources, target)))
        if target.dtype == INT64:
            self.values.append(target)
        return target

    def pick(self, shape: tuple[int, ...]) -> Region:
        """A value of a shape; it is computed if there is none."""
        values = [v for v in self.values if v.shape == shape]
        if values:
            return self.draw(st.sampled_from(values[-4:]))
        return self.call("other", [self.values[-1]], self.region(shape))

    def index(self, less: int) -> Region:
        """A small number, as a scalar."""
        return self.call("few", [self.values[less]], self.region(()))

    def test(self) -> Region:
        source = self.draw(st.sampled_from(self.values[-5:]))
        return self.call("test", [source], Region(self.name("test"), (), BOOL))

    def block(self, depth: int) -> None:
        kinds = ["map", "map", "other", "set", "view"]
        if depth:
            kinds += ["if", "for", "for", "while"]
        if self.functions:
            kinds.append("invoke")
        for _ in range(self.draw(st.integers(1, 4))):
            kind = self.draw(st.sampled_from(kinds))
            getattr(self, f"make_{kind}")(*([depth - 1] if kind in ("if", "for", "while") else []))

    def make_map(self) -> None:
        shape = self.draw(st.sampled_from(SHAPES))
        sources = [self.pick(shape) for _ in range(self.draw(st.integers(1, 2)))]
        self.call("map", sources, self.region(shape))

    def make_other(self) -> None:
        shape = self.draw(st.sampled_from(SHAPES))
        self.call("other", [self.draw(st.sampled_from(self.values[-5:]))], self.region(shape))

    def make_set(self) -> None:
        value = self.pick(self.draw(st.sampled_from(SHAPES)))
        source = self.draw(st.sampled_from(self.values[-5:]))
        target = self.region(value.shape)
        self.add(Alloc(target))
        self.add(Copy(value.name, target.name))
        operands = (Operand(Access.IN, source.name), Operand(Access.INOUT, target.name))
        self.add(Call("set", operands))
        self.values.append(target)

    def make_view(self) -> None:
        value = self.draw(st.sampled_from(self.values))
        region = self.region({(40,): (2, 20), (2, 20): (40,)}.get(value.shape, value.shape))
        self.add(Alias(region, value.name))
        self.values.append(region)

    def make_invoke(self) -> None:
        function = self.draw(st.sampled_from(self.functions))
        operands = [self.index(-1), self.pick((40,))]
        made = self.region((40,))
        self.add(Alloc(made))
        self.add(Invoke(function.name, _operands(operands, made)))
        self.values.append(made)

    def make_if(self, depth: int) -> None:
        test = self.test()
        shapes = self.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
        results = [self.region(shape) for shape in shapes]
        for result in results:
            self.add(Alloc(result))
        bodies = [self.nested(), self.nested()]
        for body in bodies:
            if self.draw(st.booleans()):
                body.block(depth)
            for result in results:
                body.add(Copy(body.pick(result.shape).name, result.name))
        self.add(If(test.name, *(body.closed() for body in bodies)))
        self.values += results

    def carried(self, count: int) -> list[Region]:
        """Memory of carried values, with their initial ones."""
        shapes = [self.draw(st.sampled_from(SHAPES)) for _ in range(count)]
        initial = [self.pick(shape) for shape in shapes]
        carried = [self.region(shape) for shape in shapes]
        for region, value in zip(carried, initial, strict=True):
            self.add(Alloc(region))
            self.add(Copy(value.name, region.name))
        return carried

    def update(self, carried: Sequence[Region]) -> None:
        """Copies new values to carried ones, through temporaries if they are carried, too."""
        values = [self.pick(region.shape) for region in carried]
        names = [value.name for value in values]
        views = {i.region.name for i in self.body if isinstance(i, Alias)}
        for n, value in enumerate(values):
            if value.name in views or (value in carried and value != carried[n]):
                names[n] = self.name("t")
                self.add(Alloc(Region(names[n], value.shape, value.dtype)))
                self.add(Copy(value.name, names[n]))
        for name, region in zip(names, carried, strict=True):
            if name != region.name:
                self.add(Copy(name, region.name))

    def make_for(self, depth: int) -> None:
        extent = self.draw(st.sampled_from([0, 1, 2, 3, None]))
        bound = self.index(-1).name if extent is None else extent
        carried = self.carried(self.draw(st.integers(1, 3)))
        index = Region(self.name("i"), (), INT64)
        body = self.nested()
        body.values += [*carried, index]
        body.block(depth)
        body.update(carried)
        self.add(For(index, bound, body.closed()))
        self.values += carried

    def make_while(self, depth: int) -> None:
        carried = self.carried(self.draw(st.integers(1, 2)))
        bound = self.index(-1)
        counter = self.region(())
        self.add(Alloc(counter))
        self.add(Call("few", _operands([self.values[0]], counter)))
        more = Region(self.name("more"), (), BOOL)
        self.add(Alloc(more))
        head = self.nested()
        head.values += [*carried, counter]
        if self.draw(st.booleans()):
            head.block(0)
        head.add(Call("less", _operands([counter, bound], more)))
        body = self.nested()
        body.values += [*carried, counter]
        body.block(depth)
        counted = body.call("next", [counter], body.region(()))
        body.update(carried)
        body.add(Copy(counted.name, counter.name))
        self.add(While(head.closed(), more.name, body.closed()))
        self.values += [*carried, counter]
