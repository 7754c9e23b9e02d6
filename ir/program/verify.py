"""Verifier of programs.

``verify`` walks the instructions and tracks the live names, the bytes that have been written on
every path, and their places in the arena. Any error it raises is a mistake of the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import dims
from ..dtype import BOOL, INT64, UINT8, DType
from ..errors import InternalError, LoopwrightError
from ..library.lookup import library_function
from ..window import dense_offset
from . import analysis, nodes
from .byte_ranges import Written, added, at_most, cover, holds, intersected

ARENA_ALIGNMENT = 64
"""Bytes: every planned allocation starts on a multiple of this."""

MOST_REGISTER_BYTES = 64
"""Most bytes of an allocation in registers."""


def verify(program: nodes.Program) -> nodes.Program:
    """The program itself if it is right; else InternalError with the instruction at fault.

    Checked, of the program and of its functions: names are declared once and before use, and not
    used outside of their block; nothing is used after ``free``, freed twice or never, or freed in
    another block than its own; bytes are written before they are read on every path (a loop may
    run zero times), all outputs are written, inputs, constants and indices never; aliases stay
    inside their memory and aligned; copies fit; operands of one call overlap only where both are
    ``@inout``; conditions are bool scalars, and extents int64 ones; what is swapped has the same
    size and is allocated in one block, outside of the innermost loop; functions are called with
    what they take, and recursive ones on the stack; planned allocations lie aligned inside the
    arena, and no two that live at the same time share a byte; updates are of inputs, with outputs
    of their type; no other inputs are written than those of functions that are ``@inout``; sizes
    are declared, and kernels and functions get as many as they have. What depends on sizes has to
    be known for all of their values.
    """
    functions = {f.name: f for f in program.functions}
    recursive = analysis.recursive_functions(program)
    if len(functions) != len(program.functions) or program.name in functions:
        raise InternalError(f"program @{program.name}: two functions have the same name")
    for function in program.functions:
        if function.functions or function.constants or function.updates:
            raise InternalError(
                f"program @{program.name}: the function @{function.name} has functions, constants "
                "or updates of its own"
            )
    if program.inout:
        raise InternalError(f"program @{program.name}: a function alone has @inout parameters")
    for scope in analysis.scopes(program):
        _Verifier(scope, functions, recursive).run()
    return program


class _Verifier:
    """Blocks are numbered as they are met. ``home`` is the block of each allocation, ``block`` the
    one that is checked, and ``loop`` the first of the innermost loop."""

    def __init__(
        self,
        program: nodes.Program,
        functions: Mapping[str, nodes.Program],
        recursive: frozenset[str],
    ) -> None:
        self.program = program
        self.functions = functions
        self.recursive = recursive
        self.instr: nodes.Instr | None = None
        self.index = -1
        self.places: dict[str, analysis.Place] = {}
        self.regions: dict[str, nodes.Region] = {}
        self.written: Written = {}
        self.read_only: set[str] = set()
        self.freed: set[str] = set()
        self.live: dict[str, nodes.Alloc] = {}
        self.blocks = 0
        self.block = 0
        self.loop = 0
        self.home: dict[str, int] = {}
        self.swapped = analysis.swap_groups(program)
        self.declared: set[dims.Symbol] = set(program.sizes)  # here
        self.has_set_sizes = bool(analysis.set_sizes(program))

    def wrong(self, message: str) -> InternalError:
        if self.instr is None:
            return InternalError(f"program @{self.program.name}: {message}")
        line, *nested = str(self.instr).split("\n")
        at = f"instruction {self.index}: {line}{' ...' if nested else ''}"
        return InternalError(f"program @{self.program.name}: {message}", notes=(at,))

    def run(self) -> None:
        program = self.program
        self.check_sizes(*(check.left - check.right for check in program.checks))
        # Outputs may have sizes that are set later.
        self.declared |= {i.size for i in program.body if isinstance(i, nodes.SetSize)}
        for region in analysis.fixed_regions(program):
            self.declare(region, analysis.Place(region.name, 0, region.nbytes))
        self.declared = set(program.sizes)
        for region in (*program.inputs, *(c.region for c in program.constants)):
            self.written[region.name] = added((), 0, region.nbytes)
            self.read_only.add(region.name)
        self.read_only -= {*program.inout}
        for constant in program.constants:
            self.check_constant(constant.region, constant.value)
        self.check_names()
        self.index = -1
        self.body(program.body)
        self.instr = None
        for region in program.outputs:
            if not cover(self.written.get(region.name, ()), 0, region.nbytes):
                raise self.wrong(f"the output %{region.name} is not written")
        sources = [u.source for u in program.updates]
        if sources and sources != [r.name for r in program.outputs[-len(sources) :]]:
            raise self.wrong("updates are not with the last outputs, in their order")
        for update in program.updates:
            self.check_update(update)

    def check_names(self) -> None:
        """Names are unique, whichever blocks declare them."""
        declared = set(self.places)
        for index, instr in enumerate(analysis.walk(self.program.body)):
            if not isinstance(instr, nodes.Alloc | nodes.Alias | nodes.For):
                continue
            name = instr.index.name if isinstance(instr, nodes.For) else instr.region.name
            if name in declared:
                self.index, self.instr = index, instr
                raise self.wrong(f"%{name} is declared twice")
            declared.add(name)

    def check_update(self, update: nodes.Update) -> None:
        program = self.program
        target = {r.name: r for r in program.inputs}.get(update.target)
        source = {r.name: r for r in program.outputs}.get(update.source)
        if target is None or source is None:
            raise self.wrong(
                f"{update}: %{update.target} is not an input, or %{update.source} is not an output"
            )
        window = update.window or tuple((0, 1, size) for size in target.shape)
        sizes = tuple(n for _, _, n in window)
        self.check_sizes(*(expr for begin, _, count in window for expr in (begin, count)))
        inside = len(window) == len(target.shape) and all(
            holds(b, ">=", 0) and s >= 1 and (n == 0 or holds(b + (n - 1) * s, "<", size))
            for (b, s, n), size in zip(window, target.shape, strict=True)
        )
        if not inside or (sizes, target.dtype) != (source.shape, source.dtype):
            raise self.wrong(f"{update}: {source.type_text} is not a window of {target.type_text}")
        if update.in_place and dense_offset(target.shape, update.window) is None:
            raise self.wrong(f"{update}: the elements are apart from one another")

    def check_constant(self, region: nodes.Region, value: object) -> None:
        shape = getattr(value, "shape", region.shape)
        dtype = getattr(value, "dtype", region.dtype.numpy)
        if shape != region.shape or dtype != region.dtype.numpy:
            raise self.wrong(f"the constant {region} has a value of {dtype}{list(shape)}")

    def check_sizes(self, *exprs: dims.IntExpr) -> None:
        """Expressions are over the sizes of the program."""
        for name, size in dims.size_symbols(*exprs).items():
            if size not in self.declared:
                raise self.wrong(f"the size {name} is not declared")

    def declare(self, region: nodes.Region, place: analysis.Place) -> None:
        self.check_sizes(*region.shape)
        if any(not holds(size, ">=", 0) for size in region.shape):
            raise self.wrong(f"{region} has a negative size")
        self.places[region.name] = place
        self.regions[region.name] = region

    def find(self, name: str) -> analysis.Place:
        place = self.places.get(name)
        if place is None:
            raise self.wrong(f"%{name} is not declared")
        if place.root in self.freed:
            raise self.wrong(f"%{name} is used after free")
        return place

    def body(self, instrs: Sequence[nodes.Instr]) -> None:
        """Checks the instructions of a block. What it declares is unknown after it."""
        places, block, around = dict(self.places), self.block, self.declared
        self.declared = set(around)
        self.blocks += 1
        self.block = self.blocks
        for self.instr in instrs:
            self.index += 1
            self.step(self.instr)
        left = [name for name in self.live if self.home[name] == self.block]
        if left:
            self.instr = None
            raise self.wrong(f"%{min(left)} is never freed")
        self.places, self.block, self.declared = places, block, around

    def step(self, instr: nodes.Instr) -> None:
        # What is swapped has to be freed at once: any of it may be in the memory of the other.
        for group in self.swapped.values() if not isinstance(instr, nodes.Free) else ():
            ended, live = group & self.freed, group & self.live.keys()
            if ended and live:
                raise self.wrong(f"%{min(live)} may be in the memory of %{min(ended)}, which ended")
        match instr:
            case nodes.Alloc():
                self.alloc(instr)
            case nodes.Free():
                self.free(instr)
            case nodes.Alias():
                self.alias(instr)
            case nodes.Swap():
                self.swap(instr)
            case nodes.SetSize():
                self.set_size(instr)
            case nodes.If():
                self.branches(instr)
            case nodes.While() | nodes.For():
                self.iterations(instr)
            case nodes.Call() | nodes.Copy() | nodes.Invoke() | nodes.Library():
                if isinstance(instr, nodes.Copy):
                    self.check_copy(instr)
                if isinstance(instr, nodes.Call):
                    self.check_sizes(*instr.sizes)
                    self.check_ranges(instr)
                if isinstance(instr, nodes.Invoke):
                    self.check_invoke(instr)
                if isinstance(instr, nodes.Library):
                    self.check_library(instr)
                self.check_races(instr)
                self.access(instr)

    def alloc(self, instr: nodes.Alloc) -> None:
        region, offset, arena = instr.region, instr.offset, self.program.arena
        self.declare(region, analysis.Place(region.name, 0, region.nbytes))
        if instr.in_registers:
            if not holds(region.nbytes, "<=", MOST_REGISTER_BYTES) or offset is not None:
                raise self.wrong(f"%{region.name} is too large for registers, or planned")
        elif (offset is None) != (arena is None):
            raise self.wrong(f"%{region.name} is {'not ' if offset is None else ''}planned")
        if offset is not None and arena is not None:
            region = self.largest(region)
            self.check_sizes(offset, arena)
            if dims.mod(offset, ARENA_ALIGNMENT) != 0:
                raise self.wrong(f"%{region.name} is not aligned to {ARENA_ALIGNMENT} bytes")
            if not holds(0, "<=", offset) or not at_most(offset + region.nbytes, arena):
                raise self.wrong(f"%{region.name} lies outside the arena")
            for other in self.live.values():
                begin = other.offset
                if begin is None:
                    continue
                before = at_most(offset + region.nbytes, begin)
                end = begin + self.largest(other.region).nbytes
                if not before and not at_most(end, offset):
                    raise self.wrong(f"%{region.name} shares bytes with %{other.region.name}")
        self.live[region.name] = instr
        self.home[region.name] = self.block
        self.freed.discard(region.name)
        self.written[region.name] = ()

    def largest(self, region: nodes.Region) -> nodes.Region:
        """A region with the memory that is allocated for it."""
        return analysis.largest(self.program, [region])[0] if self.has_set_sizes else region

    def set_size(self, instr: nodes.SetSize) -> None:
        self.check_scalar(instr.count, INT64, "size")
        self.check_sizes(instr.most)
        size, inside = instr.size, dims.bounds(instr.most, {})
        if any(size.name == other.name for other in self.declared):
            raise self.wrong(f"the size {size.name} is declared twice")
        if size.low != 0 or size.high is None or inside is None or size.high < inside[1]:
            raise self.wrong(f"{instr.most} may be beyond the range of {size.name}")
        self.declared.add(size)

    def free(self, instr: nodes.Free) -> None:
        self.find(instr.name)
        if instr.name not in self.live:
            raise self.wrong(f"%{instr.name} is not an allocation")
        if self.home[instr.name] != self.block:
            raise self.wrong(f"%{instr.name} is allocated in another block")
        del self.live[instr.name]
        self.freed.add(instr.name)

    def alias(self, instr: nodes.Alias) -> None:
        source = self.find(instr.source)
        begin = source.begin + instr.offset
        place = analysis.Place(source.root, begin, begin + instr.region.nbytes)
        self.check_sizes(instr.offset)
        if not holds(0, "<=", instr.offset) or not holds(place.end, "<=", source.end):
            raise self.wrong(f"%{instr.region.name} leaves the bytes of %{instr.source}")
        if dims.mod(begin, instr.region.dtype.bytes) != 0:
            raise self.wrong(f"%{instr.region.name} is not aligned to its elements")
        self.declare(instr.region, place)

    def swap(self, instr: nodes.Swap) -> None:
        names = (instr.one, instr.other)
        for name in names:
            self.find(name)
            if name not in self.live or self.live[name].in_registers:
                raise self.wrong(f"%{name} is not an allocation in memory")
            if self.home[name] >= self.loop > 0:
                raise self.wrong(f"%{name} is allocated inside of the loop")
        one, other = (self.live[name] for name in names)
        same = holds(one.region.nbytes, "==", other.region.nbytes)
        if instr.one == instr.other or not same:
            raise self.wrong("what is swapped is the same, or differs in size")
        if self.home[instr.one] != self.home[instr.other]:
            raise self.wrong("what is swapped is allocated in different blocks")
        written = self.written
        written[instr.one], written[instr.other] = written[instr.other], written[instr.one]

    def branches(self, instr: nodes.If) -> None:
        self.check_scalar(instr.condition, BOOL, "condition")
        before = dict(self.written)
        self.body(instr.then)
        after, self.written = self.written, before
        self.body(instr.orelse)
        self.written = intersected(after, self.written)

    def iterations(self, instr: nodes.While | nodes.For) -> None:
        """Checks a loop. An iteration begins with what is written before the loop and at the end
        of any other iteration, which is found by going through the loop until it stays."""
        places, loop, index = dict(self.places), self.loop, self.index
        if isinstance(instr, nodes.For):
            if isinstance(instr.extent, str):
                self.check_scalar(instr.extent, INT64, "extent")
            elif instr.most is not None:
                raise self.wrong(f"{instr.extent} iterations are not at most {instr.most}")
            name = instr.index.name
            if (instr.index.shape, instr.index.dtype) != ((), INT64):
                raise self.wrong(f"the index %{name} is {instr.index.type_text}, not an int64[]")
            self.declare(instr.index, analysis.Place(name, 0, instr.index.nbytes))
            self.check_places(instr)
            self.written[name] = ((0, instr.index.nbytes),)
            self.read_only.add(name)
        self.loop = self.blocks + 1
        while True:
            begin, self.index = dict(self.written), index
            if isinstance(instr, nodes.While):
                self.body(instr.head)
                self.instr = instr
                self.check_scalar(instr.condition, BOOL, "condition")
            tested = dict(self.written)
            self.body(instr.body)
            ended, self.written = self.written, intersected(begin, self.written)
            if self.written == begin:
                break
        self.places, self.loop = places, loop
        runs = isinstance(instr, nodes.For) and isinstance(instr.extent, int) and instr.extent > 0
        self.written = ended if runs else tested

    def check_scalar(self, name: str, dtype: DType, what: str) -> None:
        place = self.find(name)
        region = self.regions[name]
        if (region.shape, region.dtype) != ((), dtype):
            raise self.wrong(f"the {what} %{name} is {region.type_text}, not {dtype}[]")
        if not cover(self.written.get(place.root, ()), place.begin, place.end):
            raise self.wrong(f"%{name} is read before it is written")

    def check_ranges(self, call: nodes.Call) -> None:
        operands = {o.name for o in call.operands}
        for stated in call.ranges:
            region = self.regions.get(stated.name)
            if stated.name not in operands or region is None or region.shape:
                raise self.wrong(f"%{stated.name} is not a scalar operand")
            if not region.dtype.is_integer or stated.low > stated.high:
                raise self.wrong(f"{stated} is not the range of an integer")

    def check_places(self, loop: nodes.For) -> None:
        """Checks that places are made of the index and of scalars that the loop leaves alone."""
        names = analysis.written(loop.body)
        written = {self.places[name].root for name in names if name in self.places}
        for name in {n for place in loop.places for n in place.scalars} - {loop.index.name}:
            self.check_scalar(name, INT64, "part of a place")
            if self.find(name).root in written:
                raise self.wrong(f"%{name} is a part of a place, and the loop writes it")

    def check_copy(self, instr: nodes.Copy) -> None:
        source, target = self.find(instr.source), self.find(instr.target)
        if not holds(source.end - source.begin, "==", target.end - target.begin):
            raise self.wrong("the sizes of a copy differ")

    def check_invoke(self, instr: nodes.Invoke) -> None:
        function = self.functions.get(instr.function)
        if function is None:
            raise self.wrong(f"there is no function @{instr.function}")
        self.check_sizes(*instr.sizes)
        if len(function.sizes) != len(instr.sizes):
            raise self.wrong(f"@{function.name} has {len(function.sizes)} sizes")
        values = {s.name: value for s, value in zip(function.sizes, instr.sizes, strict=True)}
        for size in function.sizes:
            value = values[size.name]
            if (
                size.low is None
                or size.high is None
                or (not holds(size.low, "<=", value) or not holds(value, "<=", size.high))
            ):
                raise self.wrong(f"{value} is not in the range of {size.name} of @{function.name}")
        function = analysis.at_sizes(function, values)
        params = function.params
        if len(params) != len(instr.operands):
            raise self.wrong(f"@{function.name} takes {len(params)} operands")
        for (param, access), operand in zip(params, instr.operands, strict=True):
            self.find(operand.name)
            region = self.regions[operand.name]
            if operand.access is not access:
                raise self.wrong(f"%{operand.name} is given to @{access} %{param.name}")
            if (region.shape, region.dtype) != (param.shape, param.dtype):
                raise self.wrong(f"{region} is given to {param}")
        if instr.frame is None:
            return
        self.find(instr.frame)
        frame = self.regions[instr.frame]
        if function.name in self.recursive:
            raise self.wrong(f"@{function.name} is recursive, but its frame is not on the stack")
        if frame.name not in self.live or self.live[frame.name].in_registers:
            raise self.wrong(f"the frame %{frame.name} is not an allocation in memory")
        fits = function.arena is not None and at_most(function.arena, frame.nbytes)
        if frame.dtype != UINT8 or not fits:
            raise self.wrong(f"{frame} is not an arena of @{function.name}")

    def check_library(self, instr: nodes.Library) -> None:
        for operand in instr.operands:
            self.find(operand.name)
        read = [self.regions[o.name] for o in instr.operands if o.access is nodes.Access.IN]
        written = [self.regions[o.name] for o in instr.operands if o.access is nodes.Access.OUT]
        try:
            types = library_function(instr.function).rule(read, dict(instr.options))
        except LoopwrightError as error:
            raise self.wrong(f"{instr.function} has other results: {error.message}") from error
        if len(read) + len(written) != len(instr.operands) or (
            [(r.shape, r.dtype) for r in written] != [(t.shape, t.dtype) for t in types]
        ):
            raise self.wrong(f"{instr.function} has other results")

    def check_races(self, instr: nodes.Call | nodes.Copy | nodes.Invoke | nodes.Library) -> None:
        touched = [(self.find(name), name, access) for name, access in analysis.accesses(instr)]
        for i, (place, name, access) in enumerate(touched):
            for other, other_name, other_access in touched[:i]:
                if not place.overlaps(other) or not (access.writes or other_access.writes):
                    continue
                both = access is nodes.Access.INOUT and other_access is nodes.Access.INOUT
                if not both or place != other:
                    raise self.wrong(f"%{other_name} and %{name} share bytes that are written")

    def access(self, instr: nodes.Call | nodes.Copy | nodes.Invoke | nodes.Library) -> None:
        for name, access in analysis.accesses(instr):
            place = self.places[name]
            if access.reads and not cover(self.written.get(place.root, ()), place.begin, place.end):
                raise self.wrong(f"%{name} is read before it is written")
        for name, access in analysis.accesses(instr):
            place = self.places[name]
            if access.writes and place.root in self.read_only:
                raise self.wrong(f"%{name} is read-only")
            if access.writes:
                before = self.written.get(place.root, ())
                self.written[place.root] = added(before, place.begin, place.end)
