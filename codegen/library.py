"""Kernels whose product of matrices NumPy's BLAS computes.

::

    PrimFunc -> matrix_product -> the library's call, on the threads of our pool
             -> the other stages, a loop nest of their own                      -> Kernel

The kernel has the interface of any other (see ``kernel.py``), so that a program calls it like any
other, between kernels of ours. What the library computes goes to the workspace, and the rest reads
it there, unless it is a result itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.dims import as_int
from ..ir.dtype import FLOAT32, FLOAT64
from ..ir.loop.expr import Read, walk
from ..ir.loop.matrix_product import Factor, MatrixProduct, matrix_product
from ..ir.loop.nest import Nest
from ..ir.loop.prim import PrimFunc
from ..ir.loop.simplify_prim import canonical_prim
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .kernel import Kernel, compile_kernel
from .kernel_text import ALIGN, packed_entry
from .module_text import ModuleText
from .runtime.blas import Blas, numpy_blas
from .target import Target

__all__ = ["library_kernel", "library_of"]

ROW_MAJOR, AS_STORED, TRANSPOSED = 101, 111, 112
"""CBLAS's words for how a matrix lies in memory."""

ALONE = 1 << 17
"""Multiplications up to which a product is not divided: the library takes some 5 us for them."""

BLOCK = 16
"""Rows (or columns) at the border between two threads are a multiple of this."""

_LETTERS = {FLOAT32: "s", FLOAT64: "d"}


def library_of(prim: PrimFunc) -> str | None:
    """The library that could compute the heart of ``prim`` here; None if there is none."""
    blas = numpy_blas()
    return blas.name if blas is not None and _product_of(prim) is not None else None


def library_kernel(
    prim: PrimFunc, target: Target, name: str, schedule_of: Callable[[PrimFunc], Schedule]
) -> Kernel | None:
    """The kernel of ``prim`` by way of the library, None where ``library_of`` knows none.

    ``schedule_of`` gives the schedule of what is left for a loop nest.
    """
    blas, product = numpy_blas(), _product_of(prim)
    if blas is None or product is None:
        return None
    operands = apply_schedule(prim, Schedule()).operands
    places = {operand.buffer.name: f"%a{n}" for n, operand in enumerate(operands)}
    rest = _rest(prim)
    space, before, nest = 0, "", Nest(prim.name, operands, (), ())
    after: list[str] = []
    if rest is not None:
        made = product.stage.buffer
        places[made.name] = "%workspace"
        space = -(-as_int(made.size) * made.dtype.bytes // ALIGN) * ALIGN
        ours = canonical_prim(rest)
        kernel = compile_kernel(ours, schedule_of(ours), target, f"{name}.rest")
        if any(operand.pack is not None for operand in kernel.operands):
            # Whoever hands the operands over knows of no packing.
            kernel = compile_kernel(ours, Schedule(), target, f"{name}.rest")
        names = (*(p.name for p in rest.params), *rest.outputs)
        pointers = ", ".join(f"ptr {p}" for p in (*(places[n] for n in names), "%more"))
        after = [
            f"  %more = getelementptr i8, ptr %workspace, i64 {space}",
            f"  call void @{name}.rest({pointers})",
        ]
        space, before, nest = space + kernel.workspace_bytes, kernel.text, kernel.nest
    handed = (product.left.buffer, product.right.buffer, product.stage.name)
    params = ", ".join([*(f"ptr %a{n}" for n in range(len(operands))), "ptr %workspace"])
    text = "\n".join(
        [
            before,
            _product_text(product, blas, name, declared=before),
            f"define void @{name}({params}) nounwind {{",
            f"  call void @{name}.product({', '.join(f'ptr {places[n]}' for n in handed)})",
            *after,
            "  ret void",
            "}",
            packed_entry(name, len(operands)),
        ]
    )
    return Kernel(name, ModuleText.of(text), operands, space, nest, True, blas.name)


def _product_of(prim: PrimFunc) -> MatrixProduct | None:
    """The product that a library may compute before everything else is: one that is not a result
    beside others, which may have the memory of an operand that others still read."""
    product = matrix_product(prim)
    if product is None or (len(prim.stages) > 1 and product.stage.name in prim.outputs):
        return None
    return product


def _rest(prim: PrimFunc) -> PrimFunc | None:
    """The stages after the first one, which is a parameter to them; None if there are none."""
    first, *stages = prim.stages
    if not stages:
        return None
    read = {node.buffer for s in stages for node in walk(s.expr) if isinstance(node, Read)}
    params = tuple(p for p in (first.buffer, *prim.params) if p.name in read)
    plain = tuple(replace(p, constant=False) for p in params)
    return PrimFunc(f"{prim.name}_rest", plain, prim.outputs, tuple(stages))


def _product_text(product: MatrixProduct, blas: Blas, name: str, declared: str) -> str:
    """``@name.product(left, right, out)``: the library's calls, shared by the pool's threads."""
    writer = _ProductWriter(product, blas)
    work = product.products * product.rows * product.columns * product.terms
    if product.batch:
        items, body = str(product.products), writer.batch()
    else:
        items, body = "%threads" if work > ALONE else "1", writer.split()
    wanted = (
        "void @lw_parallel_for(ptr, ptr, i64)",
        "i64 @lw_pool_threads()",
        "void @lw_blas_enter()",
        "void @lw_blas_leave()",
    )
    declarations = [f"declare {w}" for w in wanted if f"declare {w}" not in declared]
    return "\n".join(
        [
            *declarations,
            writer.declaration,
            f"define internal void @{name}.part(ptr %context, i64 %begin, i64 %end) nounwind {{",
            "entry:",
            "  %left.p = load ptr, ptr %context",
            "  %right.s = getelementptr ptr, ptr %context, i64 1",
            "  %right.p = load ptr, ptr %right.s",
            "  %out.s = getelementptr ptr, ptr %context, i64 2",
            "  %out.p = load ptr, ptr %out.s",
            "  %parts.s = getelementptr ptr, ptr %context, i64 3",
            "  %parts = load i64, ptr %parts.s",
            *body,
            "}",
            f"define internal void @{name}.product(ptr %left, ptr %right, ptr %out) nounwind {{",
            "  %context = alloca [4 x ptr]",
            "  store ptr %left, ptr %context",
            "  %right.s = getelementptr ptr, ptr %context, i64 1",
            "  store ptr %right, ptr %right.s",
            "  %out.s = getelementptr ptr, ptr %context, i64 2",
            "  store ptr %out, ptr %out.s",
            "  %parts.s = getelementptr ptr, ptr %context, i64 3",
            "  %threads = call i64 @lw_pool_threads()",
            f"  store i64 {items}, ptr %parts.s",
            "  call void @lw_blas_enter()",
            f"  call void @lw_parallel_for(ptr @{name}.part, ptr %context, i64 {items})",
            "  call void @lw_blas_leave()",
            "  ret void",
            "}",
        ]
    )


class _ProductWriter:
    """Writes what one thread does: some of many products, or some rows of one."""

    def __init__(self, product: MatrixProduct, blas: Blas) -> None:
        self.product = product
        self.size = f"i{blas.size_bits}"
        dtype = product.stage.buffer.dtype
        self.letter, self.float = _LETTERS[dtype], dtype.llvm
        self.lines: list[str] = []

    @property
    def declaration(self) -> str:
        """The ``declare`` line of the library's routine."""
        size, number = self.size, self.float
        if self.product.columns == 1:
            types = f"i32, i32, {size}, {size}, {number}, ptr, {size}, ptr, {size}"
            types += f", {number}, ptr, {size}"
        else:
            types = f"i32, i32, i32, {size}, {size}, {size}, {number}, ptr, {size}, ptr, {size}"
            types += f", {number}, ptr, {size}"
        return f'declare void @"{self.routine}"({types})'

    @property
    def routine(self) -> str:
        """A matrix times a vector has one of its own."""
        return f"lw.blas.{self.letter}{'gemv' if self.product.columns == 1 else 'gemm'}"

    def batch(self) -> list[str]:
        """Products from ``%begin`` to ``%end``."""
        product = self.product
        self.lines = [
            "  br label %head",
            "head:",
            "  %n = phi i64 [ %begin, %entry ], [ %next, %body ]",
            "  %more = icmp slt i64 %n, %end",
            "  br i1 %more, label %body, label %done",
            "body:",
        ]
        moved: dict[str, str] = {"left": "0", "right": "0", "out": "0"}
        rest = "%n"
        for number, axis in reversed([*enumerate(product.batch)]):
            self.lines.append(f"  %i{number} = urem i64 {rest}, {axis.extent}")
            self.lines.append(f"  %r{number} = udiv i64 {rest}, {axis.extent}")
            rest = f"%r{number}"
            for side, step in (("left", axis.left), ("right", axis.right), ("out", axis.out)):
                if step:
                    self.lines += [
                        f"  %{side}.m{number} = mul i64 %i{number}, {step}",
                        f"  %{side}.o{number} = add i64 {moved[side]}, %{side}.m{number}",
                    ]
                    moved[side] = f"%{side}.o{number}"
        self.call(str(product.rows), str(product.columns), moved)
        self.lines += ["  %next = add i64 %n, 1", "  br label %head", "done:", "  ret void"]
        return self.lines

    def split(self) -> list[str]:
        """The part from ``%begin`` to ``%end`` of ``%parts``, of the rows or of the columns."""
        product = self.product
        by_rows = product.rows >= product.columns
        extent = product.rows if by_rows else product.columns
        block = BLOCK if extent >= 4 * BLOCK else 1
        self.lines = []
        for name in ("begin", "end"):
            self.lines += [
                f"  %{name}.all = mul i64 %{name}, {extent}",
                f"  %{name}.even = udiv i64 %{name}.all, %parts",
                f"  %{name}.block = and i64 %{name}.even, {-block}",
                f"  %{name}.last = icmp eq i64 %{name}, %parts",
                f"  %{name}.at = select i1 %{name}.last, i64 {extent}, i64 %{name}.block",
            ]
        self.lines += [
            "  %count = sub i64 %end.at, %begin.at",
            "  %some = icmp sgt i64 %count, 0",
            "  br i1 %some, label %body, label %done",
            "body:",
        ]
        side, factor = ("left", product.left) if by_rows else ("right", product.right)
        step = factor.rows if by_rows else factor.columns
        out_step = product.out.rows if by_rows else product.out.columns
        self.lines += [
            f"  %{side}.o = mul i64 %begin.at, {step}",
            f"  %out.o = mul i64 %begin.at, {out_step}",
        ]
        moved = {"left": "0", "right": "0", "out": "%out.o", side: f"%{side}.o"}
        rows = "%count" if by_rows else str(product.rows)
        columns = str(product.columns) if by_rows else "%count"
        self.call(rows, columns, moved)
        self.lines += ["  br label %done", "done:", "  ret void"]
        return self.lines

    def call(self, rows: str, columns: str, moved: dict[str, str]) -> None:
        """One call of the routine, on operands that begin ``moved`` elements further."""
        product = self.product
        for side, factor in (
            ("left", product.left),
            ("right", product.right),
            ("out", product.out),
        ):
            self.lines += [
                f"  %{side}.at = add i64 {moved[side]}, {factor.offset}",
                f"  %{side}.q = getelementptr {self.float}, ptr %{side}.p, i64 %{side}.at",
            ]
        rows, columns = self.sized(rows, "rows"), self.sized(columns, "columns")
        terms, number = str(product.terms), self.float
        size = self.size
        left, step = _stored(product.left, product.rows, product.terms)
        if product.columns == 1:
            shape = (rows, terms) if left == AS_STORED else (terms, rows)
            vector, result = max(1, product.right.rows), max(1, product.out.rows)
            arguments = [
                f"i32 {ROW_MAJOR}, i32 {left}",
                f"{size} {shape[0]}, {size} {shape[1]}",
                f"{number} 1.0, ptr %left.q, {size} {step}",
                f"ptr %right.q, {size} {vector}",
                f"{number} 0.0, ptr %out.q, {size} {result}",
            ]
        else:
            right, right_step = _stored(product.right, product.terms, product.columns)
            out_step = product.out.rows if product.rows > 1 else product.columns
            arguments = [
                f"i32 {ROW_MAJOR}, i32 {left}, i32 {right}",
                f"{size} {rows}, {size} {columns}, {size} {terms}",
                f"{number} 1.0, ptr %left.q, {size} {step}",
                f"ptr %right.q, {size} {right_step}",
                f"{number} 0.0, ptr %out.q, {size} {out_step}",
            ]
        self.lines.append(f'  call void @"{self.routine}"({", ".join(arguments)})')

    def sized(self, count: str, name: str) -> str:
        """A count as the library's kind of size."""
        if self.size == "i64" or not count.startswith("%"):
            return count
        self.lines.append(f"  %{name}.n = trunc i64 {count} to {self.size}")
        return f"%{name}.n"


def _stored(factor: Factor, rows: int, columns: int) -> tuple[int, int]:
    """Returns the storage order of a matrix, and the distance of its rows (or columns)."""
    if (columns == 1 or factor.columns == 1) and (rows == 1 or factor.rows >= columns):
        return AS_STORED, factor.rows if rows > 1 else columns
    return TRANSPOSED, factor.columns if columns > 1 else rows
