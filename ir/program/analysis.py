"""Memory behind the names of a program, and the instructions that access it.

What is said of a program here is said of its own instructions, nested ones included, and not of
those of its functions: each of them has its own names. ``scopes`` gives them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from ..dataclass import dataclass
from ..dim_proofs import prove
from ..dims import Dim, IntExpr, Symbol, bounds, size_symbols, substitute, typical
from ..size_table import SizeCheck, SizeTable
from . import nodes


def walk(body: Iterable[nodes.Instr]) -> Iterator[nodes.Instr]:
    """The instructions of a body, each before those that are nested in it."""
    open_bodies = [iter(body)]
    while open_bodies:
        instr = next(open_bodies[-1], None)
        if instr is None:
            open_bodies.pop()
            continue
        yield instr
        open_bodies.extend(map(iter, reversed(nodes.nested_bodies(instr))))


def instructions(program: nodes.Program) -> Iterator[nodes.Instr]:
    """All instructions of a program, those of its functions included."""
    yield from walk(program.body)
    for function in program.functions:
        yield from walk(function.body)


def calls(program: nodes.Program) -> Iterator[nodes.Call]:
    """The calls of kernels in a program and its functions, loops and branches included."""
    return (i for i in instructions(program) if isinstance(i, nodes.Call))


def map_calls(
    body: Iterable[nodes.Instr], change: Callable[[nodes.Call], nodes.Call]
) -> tuple[nodes.Instr, ...]:
    """A body after ``change`` of each call of a kernel, loops and branches included."""
    return tuple(
        change(i)
        if isinstance(i, nodes.Call)
        else nodes.with_nested_bodies(i, [map_calls(b, change) for b in nodes.nested_bodies(i)])
        for i in body
    )


def has_control_flow(program: nodes.Program) -> bool:
    """True if a program is more than a straight line of calls: what may raise is."""
    return bool(program.functions) or any(
        isinstance(i, nodes.Library) or nodes.nested_bodies(i) for i in program.body
    )


def is_straight_without_copies(program: nodes.Program) -> bool:
    """True if a program is a straight line of calls that copies nothing: whose memory is shared
    where one call ends a life and begins another, and nowhere else."""
    return not has_control_flow(program) and not any(
        isinstance(i, nodes.Copy) for i in program.body
    )


def scopes(program: nodes.Program) -> tuple[nodes.Program, ...]:
    """The program and each of its functions, as programs with the constants they may use."""
    functions = (replace(f, constants=program.constants) for f in program.functions)
    return (program, *functions)


def recursive_functions(program: nodes.Program) -> frozenset[str]:
    """The functions that may run while they run, directly or through others."""
    callees = {
        f.name: {i.function for i in walk(f.body) if isinstance(i, nodes.Invoke)}
        for f in program.functions
    }
    reached = callees
    while True:
        further = {
            name: seen.union(*(reached.get(n, set[str]()) for n in seen))
            for name, seen in reached.items()
        }
        if further == reached:
            return frozenset(name for name, seen in reached.items() if name in seen)
        reached = further


def each_scope(
    program: nodes.Program, change: Callable[[nodes.Program], nodes.Program]
) -> nodes.Program:
    """The program after ``change`` of each of its ``scopes``; itself if nothing changed."""
    main, *functions = scopes(program)
    changed = change(main)
    new = tuple(change(f) for f in functions)
    if all(a is b for a, b in zip(new, functions, strict=True)):
        return changed
    return replace(changed, functions=tuple(replace(f, constants=()) for f in new))


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes ``begin`` to ``end`` (exclusive) of the memory of ``root``, which is not an alias."""

    root: str
    begin: IntExpr
    end: IntExpr

    def overlaps(self, other: Place) -> bool:
        """False if the two are known to share no byte."""
        return (
            self.root == other.root
            and prove(self.end, "<=", other.begin) is not True
            and prove(other.end, "<=", self.begin) is not True
        )


def places(program: nodes.Program) -> dict[str, Place]:
    """Returns the place of each name of the program; aliases are resolved to their root."""
    by_name = {r.name: Place(r.name, 0, r.nbytes) for r in fixed_regions(program)}
    for instr in walk(program.body):
        if isinstance(instr, nodes.Alloc | nodes.For):
            region = instr.region if isinstance(instr, nodes.Alloc) else instr.index
            by_name[region.name] = Place(region.name, 0, region.nbytes)
        elif isinstance(instr, nodes.Alias):
            source = by_name[instr.source]
            begin = source.begin + instr.offset
            by_name[instr.region.name] = Place(source.root, begin, begin + instr.region.nbytes)
    return by_name


def fixed_regions(program: nodes.Program) -> tuple[nodes.Region, ...]:
    """The regions that live as long as the program runs: inputs, outputs, constants."""
    return (*program.inputs, *program.outputs, *(c.region for c in program.constants))


def regions(program: nodes.Program) -> dict[str, nodes.Region]:
    """Every region of the program by name."""
    declared = [i.region for i in walk(program.body) if isinstance(i, nodes.Alloc | nodes.Alias)]
    declared += [i.index for i in walk(program.body) if isinstance(i, nodes.For)]
    return {r.name: r for r in (*fixed_regions(program), *declared)}


def accesses(instr: nodes.Instr) -> Iterator[tuple[str, nodes.Access]]:
    """The names whose memory an instruction itself reads or writes; what is nested in it is left
    out. Alloc, free, alias and swap touch none."""
    match instr:
        case nodes.Call(_, operands, scratch) | nodes.Invoke(_, operands, scratch):
            for operand in operands:
                yield operand.name, operand.access
            if scratch is not None:
                yield scratch, nodes.Access.OUT
        case nodes.Library(_, operands):
            for operand in operands:
                yield operand.name, operand.access
        case nodes.Copy(source, target):
            yield source, nodes.Access.IN
            yield target, nodes.Access.OUT
        case nodes.If(condition) | nodes.While(_, condition):
            yield condition, nodes.Access.IN
        case nodes.For(index, extent):
            if isinstance(extent, str):
                yield extent, nodes.Access.IN
            yield index.name, nodes.Access.OUT
        case nodes.SetSize(_, count):
            yield count, nodes.Access.IN
        case _:
            pass


def written(body: Iterable[nodes.Instr]) -> Iterator[str]:
    """The names that some instructions write, at any depth."""
    for instr in walk(body):
        for name, access in accesses(instr):
            if access.writes:
                yield name


def spans(program: nodes.Program) -> dict[str, tuple[int, int]]:
    """The indices of the first and the last instruction that touch each root, both inclusive, in
    the order of ``walk``."""
    where = places(program)
    by_root: dict[str, tuple[int, int]] = {}
    for index, instr in enumerate(walk(program.body)):
        for name, _ in accesses(instr):
            root = where[name].root
            by_root[root] = (by_root.get(root, (index, index))[0], index)
    return by_root


def swap_groups(program: nodes.Program) -> dict[str, frozenset[str]]:
    """The allocations that exchange their memory, by each of them: they live equally long."""
    groups: dict[str, frozenset[str]] = {}
    for instr in walk(program.body):
        if isinstance(instr, nodes.Swap):
            names = (instr.one, instr.other)
            group = frozenset(names).union(*(groups.get(n, ()) for n in names))
            groups.update(dict.fromkeys(group, group))
    return groups


def rename(instr: nodes.Instr, names: Mapping[str, str]) -> nodes.Instr:
    """``instr`` with the names it uses (not the one it declares) replaced, but for what is nested
    in it."""

    def new(name: str) -> str:
        return names.get(name, name)

    match instr:
        case nodes.Call(_, operands, workspace):
            if workspace not in names and names.keys().isdisjoint(o.name for o in operands):
                return instr
            changed = tuple(nodes.Operand(o.access, new(o.name)) for o in operands)
            space = None if workspace is None else new(workspace)
            return replace(instr, operands=changed, workspace=space)
        case nodes.Invoke(_, operands, frame):
            changed = tuple(nodes.Operand(o.access, new(o.name)) for o in operands)
            return replace(instr, operands=changed, frame=None if frame is None else new(frame))
        case nodes.Library(_, operands):
            return replace(
                instr, operands=tuple(nodes.Operand(o.access, new(o.name)) for o in operands)
            )
        case nodes.Copy(source, target):
            return nodes.Copy(new(source), new(target))
        case nodes.Alias(region, source, offset):
            return nodes.Alias(region, new(source), offset)
        case nodes.Free(name):
            return nodes.Free(new(name))
        case nodes.SetSize(_, count):
            return replace(instr, count=new(count))
        case nodes.Swap(one, other):
            return nodes.Swap(new(one), new(other))
        case nodes.If(condition) | nodes.While(_, condition):
            return replace(instr, condition=new(condition))
        case nodes.For(_, extent):
            return instr if isinstance(extent, int) else replace(instr, extent=new(extent))
        case nodes.Alloc():
            return instr


def merge(program: nodes.Program, into: Mapping[str, str]) -> nodes.Program:
    """The program with each allocation named in ``into`` moved to the memory of another root.

    Both have equally many bytes. Where shape and dtype agree the name is replaced as well, else it
    becomes an alias. ``place_lifetimes`` has to follow: it corrects allocations and frees.
    """
    by_name = regions(program)
    names = {
        gone: root
        for gone, root in into.items()
        if (by_name[gone].shape, by_name[gone].dtype) == (by_name[root].shape, by_name[root].dtype)
    }

    def merged(body: Iterable[nodes.Instr]) -> Iterator[nodes.Instr]:
        for instr in body:
            if isinstance(instr, nodes.Alloc) and instr.region.name in into:
                name = instr.region.name
                if name not in names:
                    yield nodes.Alias(instr.region, into[name])
            elif not (isinstance(instr, nodes.Free) and instr.name in into):
                instr = rename(instr, names)
                inside = [tuple(merged(b)) for b in nodes.nested_bodies(instr)]
                yield nodes.with_nested_bodies(instr, inside) if inside else instr

    return replace(program, body=tuple(merged(program.body)))


def live_bytes(program: nodes.Program, alignment: int = 1) -> list[int]:
    """Returns the bytes that are allocated after each instruction, in the order of ``walk``; a
    buffer counts as a multiple of ``alignment``. Sizes have typical values."""
    sizes: dict[str, int] = {}
    live = 0
    after: list[int] = []
    for instr in walk(program.body):
        if isinstance(instr, nodes.Alloc):
            nbytes = 0 if instr.in_registers else typical(instr.region.nbytes)
            size = -(-nbytes // alignment) * alignment
            sizes[instr.region.name] = size
            live += size
        elif isinstance(instr, nodes.Free):
            live -= sizes[instr.name]
        after.append(live)
    return after


def max_live_bytes(program: nodes.Program, alignment: int = 1) -> int:
    """Returns the most bytes that are allocated at one time, a lower bound of every plan. Sizes
    have typical values."""
    return max(live_bytes(program, alignment), default=0)


def size_table(program: nodes.Program, arena: IntExpr | None = None) -> SizeTable | None:
    """Returns how arguments determine the sizes of a program; None if it has none. Its memory is
    ``arena`` bytes, or what the program states."""
    if not program.sizes:
        return None
    arena = program.arena if arena is None else arena
    outputs = largest(program, program.outputs)
    counts = [r.nbytes for r in (*program.inputs, *outputs)]
    return SizeTable(
        program.sizes,
        tuple(r.shape for r in program.inputs),
        tuple(r.shape for r in outputs),
        program.checks,
        (*counts, *(() if arena is None else (arena,))),
    )


def set_sizes(program: nodes.Program) -> dict[str, IntExpr]:
    """The sizes whose values data decides, at any depth, with what they are at most."""
    return {i.size.name: i.most for i in walk(program.body) if isinstance(i, nodes.SetSize)}


def at_most(expr: IntExpr, most: Mapping[str, IntExpr]) -> IntExpr:
    """Returns an upper bound of an expression that has none of the sizes in ``most``."""
    while most and any(name in most for name in size_symbols(expr)):
        assert isinstance(expr, Dim)
        grows = all(
            isinstance(atom, Symbol) and atom.low is not None and atom.low >= 0 and coef > 0
            for mono, coef in expr.terms
            for atom in mono
            if any(name in most for name in size_symbols(Dim(((mono, 1),))))
        )
        inside = None if grows else bounds(expr, {})
        expr = substitute(expr, most) if inside is None else inside[1]
    return expr


def largest(program: nodes.Program, declared: Iterable[nodes.Region]) -> list[nodes.Region]:
    """Regions as large as they may be: what memory for them is allocated."""
    most = set_sizes(program)
    if not most:
        return list(declared)
    return [replace(r, shape=tuple(at_most(s, most) for s in r.shape)) for r in declared]


def at_sizes(program: nodes.Program, values: Mapping[str, IntExpr]) -> nodes.Program:
    """Returns a program, or a function of one, with values in place of its sizes. Functions of the
    program keep theirs, whose values stand where they are invoked."""
    if not values:
        return program

    def at(expr: IntExpr) -> IntExpr:
        return substitute(expr, values)

    def region(old: nodes.Region) -> nodes.Region:
        return replace(old, shape=tuple(map(at, old.shape)))

    def body(instrs: Iterable[nodes.Instr]) -> tuple[nodes.Instr, ...]:
        return tuple(map(instruction, instrs))

    def instruction(instr: nodes.Instr) -> nodes.Instr:
        match instr:
            case nodes.Alloc(declared, offset):
                offset = None if offset is None else at(offset)
                return replace(instr, region=region(declared), offset=offset)
            case nodes.Alias(declared, _, offset):
                return replace(instr, region=region(declared), offset=at(offset))
            case nodes.Call() | nodes.Invoke():
                return replace(instr, sizes=tuple(map(at, instr.sizes)))
            case nodes.SetSize(_, _, most):
                return replace(instr, most=at(most))
            case _:
                return nodes.with_nested_bodies(
                    instr, [body(b) for b in nodes.nested_bodies(instr)]
                )

    def update(old: nodes.Update) -> nodes.Update:
        window = old.window and tuple((at(b), step, at(n)) for b, step, n in old.window)
        return replace(old, window=window)

    return replace(
        program,
        inputs=tuple(map(region, program.inputs)),
        outputs=tuple(map(region, program.outputs)),
        body=body(program.body),
        arena=None if program.arena is None else at(program.arena),
        updates=tuple(map(update, program.updates)),
        sizes=tuple(s for s in program.sizes if s.name not in values),
        checks=tuple(
            SizeCheck(at(c.left), c.relation, at(c.right), c.message, c.span)
            for c in program.checks
        ),
    )
