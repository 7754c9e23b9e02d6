"""The entry of a program that gives arguments new values: results in their place, or copied there.

``i32 @lw.update(ptr args, ptr arena)`` stands in the module of the program's own entry, which it
calls. It fills in where those results are that are new values of inputs: in the input itself, or in
the arena behind the program's own memory, from where they are copied once all kernels have run.
"""

from __future__ import annotations

from ..ir.dataclass import dataclass
from ..ir.dims import Dim, IntExpr, ceildiv, product
from ..ir.program.analysis import fixed_regions
from ..ir.program.nodes import Program, Region, Update
from ..ir.program.verify import ARENA_ALIGNMENT
from ..ir.window import Window, dense_offset
from .size_text import SizeWriter

UPDATE_ENTRY = "lw.update"


def update_arena(program: Program) -> IntExpr:
    """The bytes of the arena that the entry needs."""
    ends = [p.end for p in _places(program) if not p.update.in_place]
    return ends[-1] if ends else program.scratch


@dataclass(frozen=True, slots=True)
class _Placed:
    """An update, and the byte offset of its result in the input or in the arena."""

    update: Update
    offset: IntExpr
    end: IntExpr


def _places(program: Program) -> list[_Placed]:
    regions = _regions(program)
    placed: list[_Placed] = []
    arena = program.scratch
    for update in program.updates:
        target, source = regions[update.target], regions[update.source]
        if update.in_place:
            offset = dense_offset(target.shape, update.window)
            assert offset is not None
            placed.append(_Placed(update, offset * target.dtype.bytes, 0))
        else:
            begin = ceildiv(arena, ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            arena = begin + source.nbytes
            placed.append(_Placed(update, begin, arena))
    return placed


def _regions(program: Program) -> dict[str, Region]:
    return {r.name: r for r in (*program.inputs, *program.outputs)}


def update_text(program: Program, entry: str, may_fail: bool) -> str:
    """The LLVM text of the entry; the program's own one is called ``entry``, and ``may_fail`` says
    whether its status may be other than 0."""
    regions = _regions(program)
    fixed = fixed_regions(program)
    slots = {r.name: n for n, r in enumerate(fixed)}
    before: list[str] = []
    after: list[str] = []
    sizes = SizeWriter(before, {})
    for n, size in enumerate(program.sizes, len(fixed)):
        before += [
            f"  %size{n}.p = getelementptr i64, ptr %args, i64 {n}",
            f"  %size{n} = load i64, ptr %size{n}.p, align 8",
        ]
        sizes.values[size.name] = f"%size{n}"
    for n, placed in enumerate(_places(program)):
        update = placed.update
        base = f"%target{n}" if update.in_place else "%arena"
        offset = sizes.value(placed.offset)
        before += [
            f"  %target{n}.p = getelementptr i64, ptr %args, i64 {slots[update.target]}",
            f"  %target{n} = load ptr, ptr %target{n}.p",
            f"  %source{n}.p = getelementptr i64, ptr %args, i64 {slots[update.source]}",
            f"  %source{n} = getelementptr i8, ptr {base}, i64 {offset}",
            f"  store ptr %source{n}, ptr %source{n}.p",
        ]
        if not update.in_place:
            after += _copy(n, regions[update.target], update.window, sizes)
    return "\n".join(
        [
            f'define i32 @"{UPDATE_ENTRY}"(ptr %args, ptr %arena) {{',
            "entry:",
            *before,
            f'  %status = call i32 @"{entry}"(ptr %args, ptr %arena)',
            *(_LEAVE if may_fail else ()),
            *after,
            "  ret i32 0",
            "}",
            "",
        ]
    )


# Results that were not computed are not copied.
_LEAVE = (
    "  %fine = icmp eq i32 %status, 0",
    "  br i1 %fine, label %ran, label %failed",
    "failed:",
    "  ret i32 %status",
    "ran:",
)


def _copy(n: int, target: Region, window: Window | None, sizes: SizeWriter) -> list[str]:
    """Copies ``%source{n}`` to a window of ``%target{n}``: loops over rows that are one piece.
    ``sizes`` writes in front of all copies."""
    window = window or tuple((0, 1, size) for size in target.shape)
    counts = [count for _, _, count in window]
    steps = [product(target.shape[axis + 1 :]) * step for axis, (_, step, _) in enumerate(window)]
    begin = sum(b * product(target.shape[axis + 1 :]) for axis, (b, _, _) in enumerate(window))
    run: IntExpr = 1
    while counts and (counts[-1] == 1 or steps[-1] == run):
        run = run * counts.pop()
        steps.pop()
    loops = [(c, s) for c, s in zip(counts, steps, strict=True) if c != 1]
    if run == 0 or any(c == 0 for c, _ in loops):
        return []
    size = target.dtype.bytes
    lines: list[str] = []
    if any(isinstance(c, Dim) for c, _ in loops):  # a symbolic one may be 0
        every = sizes.value(product(c for c, _ in loops))
        lines += [
            f"  %any{n} = icmp ne i64 {every}, 0",
            f"  br i1 %any{n}, label %c{n}.some, label %c{n}.none",
            f"c{n}.some:",
        ]
    source, place = "0", sizes.value(begin)
    for depth, (_, step) in enumerate(loops):
        name = f"c{n}.{depth}"
        outer = f"c{n}.{depth - 1}.body" if depth else f"c{n}.start"
        if not depth:
            lines += [f"  br label %{outer}", f"{outer}:"]
        inside = sizes.value(run * product(c for c, _ in loops[depth + 1 :]))
        lines += [
            f"  br label %{name}.body",
            f"{name}.body:",
            f"  %{name} = phi i64 [ 0, %{outer} ], [ %{name}.next, %{name}.end ]",
            f"  %{name}.next = add i64 %{name}, 1",
            f"  %{name}.s = mul i64 %{name}, {inside}",
            f"  %{name}.source = add i64 %{name}.s, {source}",
            f"  %{name}.t = mul i64 %{name}, {sizes.value(step)}",
            f"  %{name}.target = add i64 %{name}.t, {place}",
        ]
        source, place = f"%{name}.source", f"%{name}.target"
    element = f"i{8 * size}"
    lines += [
        f"  %from{n} = getelementptr {element}, ptr %source{n}, i64 {source}",
        f"  %to{n} = getelementptr {element}, ptr %target{n}, i64 {place}",
    ]
    if run == 1:
        lines += [
            f"  %value{n} = load {element}, ptr %from{n}, align {size}",
            f"  store {element} %value{n}, ptr %to{n}, align {size}",
        ]
    else:
        nbytes = sizes.value(run * size)
        lines.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{n}, ptr %from{n}, i64 {nbytes}, i1 false)"
        )
    for depth, (count, _) in reversed(list(enumerate(loops))):
        name = f"c{n}.{depth}"
        lines += [
            f"  br label %{name}.end",
            f"{name}.end:",
            f"  %{name}.more = icmp ult i64 %{name}.next, {sizes.value(count)}",
            f"  br i1 %{name}.more, label %{name}.body, label %{name}.done",
            f"{name}.done:",
        ]
    if any(isinstance(c, Dim) for c, _ in loops):
        lines += [f"  br label %c{n}.none", f"c{n}.none:"]
    return lines
