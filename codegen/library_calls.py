"""Library calls of a program: the Python callables that its entry calls, and where they are.

An entry refers to each place of a call by a symbol. Linking makes a site of it
(``runtime/library_site.py``): the callable for the options, and the types of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr
from ..ir.dtype import DTYPES
from ..ir.graph.printer import span_text
from ..ir.library.lookup import library_function
from ..ir.library.registry import Options
from ..ir.program.analysis import instructions, regions, scopes, walk
from ..ir.program.nodes import Library, Program
from .runtime import library_site
from .runtime.buffers import ArraySpec


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A place that calls a library function, as a saved program has it. ``operands`` are dtype and
    shape of each and whether it is written; ``place`` is the user's line."""

    function: str
    options: Options
    operands: tuple[tuple[str, tuple[IntExpr, ...], bool], ...]
    place: str


def site_symbols(program: Program) -> dict[int, str]:
    """Returns the symbol of each library call, by the identity of its instruction."""
    calls = (i for i in instructions(program) if isinstance(i, Library))
    return {id(call): f"lw.site{n}" for n, call in enumerate(calls)}


def library_calls(program: Program) -> dict[str, LibraryCall]:
    """Returns the library calls of a program and its functions, by their symbols."""
    symbols = site_symbols(program)
    calls: dict[str, LibraryCall] = {}
    for scope in scopes(program) if symbols else ():
        by_name = regions(scope)
        for instr in walk(scope.body):
            if isinstance(instr, Library):
                operands = tuple(
                    (by_name[o.name].dtype.name, by_name[o.name].shape, o.access.writes)
                    for o in instr.operands
                )
                place = "" if instr.span is None else span_text(instr.span)
                calls[symbols[id(instr)]] = LibraryCall(
                    instr.function, instr.options, operands, place
                )
    return calls


def unless_zero(name: str, pointer: str) -> list[str]:
    """The lines that leave out the call ``name`` if the int64 at ``pointer`` is 0."""
    return [
        f"  %{name}.found = load i64, ptr {pointer}, align 8",
        f"  %{name}.well = icmp eq i64 %{name}.found, 0",
        f"  br i1 %{name}.well, label %{name}.go, label %{name}.call",
        f"{name}.call:",
    ]


def linked_sites(calls: Mapping[str, LibraryCall]) -> tuple[dict[str, int], Sequence[object]]:
    """Returns the addresses of all that an entry with such calls refers to, and what must live as
    long as its code."""
    if not calls:
        return {}, ()
    sites = {
        symbol: library_site.make_site(
            _located(_bound(call), call.place),
            [
                (ArraySpec(shape, DTYPES[dtype].numpy), written)
                for dtype, shape, written in call.operands
            ],
        )
        for symbol, call in calls.items()
    }
    places = {symbol: site.address for symbol, site in sites.items()}
    return {**library_site.symbols(), **places}, (*sites.values(),)


def _bound(call: LibraryCall) -> Callable[..., None]:
    read = sum(not written for _, _, written in call.operands)
    return library_function(call.function).bind(dict(call.options), read)


def _located(function: Callable[..., None], place: str) -> Callable[..., None]:
    """Returns ``function``, whose exceptions say in which line of the compiled function."""

    def call(*arrays: Any) -> None:
        try:
            function(*arrays)
        except BaseException as error:
            if place:
                error.add_note(f"in compiled code: {place}")
            raise

    return call
