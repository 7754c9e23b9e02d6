"""Procedure: a PrimFunc whose meaning is a body of statements, for what keeps a state.

::

    Procedure ::= "prim @" name "(" Param, ... ")" "->" Result, ... ["for" Size, ...] "procedure"
                  "{" ["workspace" Buffer]* Stmt* "}"
    Result    ::= Buffer ["begins as" param]

A scan, a sort or a scatter is neither a map nor a reduction: what an element becomes depends on the
order in which others were written. Its operator gives the statements of a loop nest (see ``nest``),
in the plainest order. A schedule changes their loops only where their iterations are
independent (``ir/schedule/procedures.py``). Everything else that handles a PrimFunc handles this
one: it has no stages, its text is its workload, and the interpreter of nests is its meaning.

A result may *begin as* a parameter: it has its value before the first statement, so that the body
writes only what changes. The body does not mention that parameter. Natively it is not passed: the
result's operand is read and written (``Role.INOUT``), and whoever calls the kernel has put the
parameter's value there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..dataclass import dataclass
from ..dims import IntExpr, typical
from . import nest
from .kinds import Role
from .prim import Buffer, PrimFunc, sizes_left, sizes_text

P = TypeVar("P", bound="Procedure")


@dataclass(frozen=True)
class Procedure(PrimFunc):
    """``body`` writes every element of ``results`` that do not begin as a parameter; ``workspace``
    buffers are scratch memory. ``begins`` holds pairs of a result and the parameter it begins as.
    """

    results: tuple[Buffer, ...] = ()
    workspace: tuple[Buffer, ...] = ()
    body: tuple[nest.Stmt, ...] = ()
    begins: tuple[tuple[str, str], ...] = ()

    def __getstate__(self) -> tuple[Any, ...]:
        parts = self.results, self.workspace, self.body, self.begins, self.size_order
        return self.name, self.params, *parts

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        fields = ("name", "params", "results", "workspace", "body", "begins", "size_order")
        for name, value in zip(fields, state, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "outputs", tuple(b.name for b in self.results))
        object.__setattr__(self, "stages", ())
        self.__post_init__()

    @property
    def output_buffers(self) -> tuple[Buffer, ...]:
        return self.results

    @property
    def buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in (*self.params, *self.results, *self.workspace)}

    def _size_exprs(self) -> Iterator[IntExpr]:
        for buffer in (*self.params, *self.results, *self.workspace):
            yield from buffer.shape
        for stmt in nest.statements(self.body):
            yield from nest.int_exprs(stmt)

    def at(self: P, values: Mapping[str, IntExpr]) -> P:
        if not self.sizes:
            return self
        params, results, workspace = (
            tuple([b.at(values) for b in buffers])
            for buffers in (self.params, self.results, self.workspace)
        )
        body = tuple([nest.substituted(stmt, values) for stmt in self.body])
        order = sizes_left(self, values)
        return replace(
            self, params=params, results=results, workspace=workspace, body=body, size_order=order
        )

    @property
    def results_text(self) -> str:
        """The results as they print, with the parameters they begin as, and the symbolic sizes."""
        begins = dict(self.begins)
        return ", ".join(
            f"{b} begins as {begins[b.name]}" if b.name in begins else str(b) for b in self.results
        ) + sizes_text(self.sizes)

    @property
    def statements_text(self) -> str:
        """The body as it prints, with the workspace above it."""
        lines = [f"  workspace {b}" for b in self.workspace]
        return "\n".join([*lines, *(line for line, _ in nest.statement_lines(self.body, 1))])

    def __str__(self) -> str:
        params = ", ".join(f"{p}" + (" const" if p.constant else "") for p in self.params)
        header = f"prim @{self.name}({params}) -> {self.results_text} procedure"
        return f"{header} {{\n{self.statements_text}\n}}"


def procedure(
    name: str,
    params: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
    workspace: tuple[Buffer, ...],
    body: tuple[nest.Stmt, ...],
    begins: tuple[tuple[str, str], ...] = (),
) -> Procedure:
    """Returns the procedure of these parts."""
    outputs = tuple(b.name for b in results)
    return Procedure(name, params, outputs, (), (), results, workspace, body, begins)


def plain_nest(prim: Procedure) -> nest.Nest:
    """Returns the nest that a procedure is without a schedule."""
    begins = dict(prim.begins)
    places = {p.name: n for n, p in enumerate(prim.params)}
    operands = [
        nest.Operand(p, Role.CONST if p.constant else Role.IN)
        for p in prim.params
        if p.name not in begins.values()
    ]
    for result in prim.results:
        start = begins.get(result.name)
        if start is None:
            operands.append(nest.Operand(result, Role.OUT))
        else:
            operands.append(nest.Operand(result, Role.INOUT, begins_as=(places[start], start)))
    return nest.Nest(prim.name, tuple(operands), prim.workspace, prim.body, prim.sizes)


def executions(body: Sequence[nest.Stmt]) -> int:
    """Returns how often the stores of some statements run, all branches taken, at typical sizes."""
    count = 0
    for stmt in body:
        if isinstance(stmt, nest.Loop):
            count += (1 if isinstance(stmt, nest.At) else typical(stmt.extent)) * executions(
                stmt.body
            )
        elif isinstance(stmt, nest.If):
            count += executions(stmt.then) + executions(stmt.orelse)
        else:
            count += isinstance(stmt, nest.Store | nest.Accumulate)
            if isinstance(stmt, nest.Sort):  # each element moves once for each bit of their number
                sorted_count = typical(stmt.count)
                count += sorted_count * sorted_count.bit_length()
    return count
