"""Read the text that ``printer.py`` writes; the grammar stands there.

Two liberties beyond it: an argument may be an expression of its own (``exp(add(%x, 1f))``), and a
function's result type may be left out where nobody calls it earlier. Comments behind a binding that
name a line (``/* model.py:3 */``) become its span again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..dims import IntExpr, size
from ..dtype import INT64
from ..errors import LoopwrightError, ParseError
from ..loop.parser import read_prim
from ..loop.prim import PrimFunc
from ..schedule.parser import read_schedule
from ..schedule.schedule import Schedule
from ..span import Span
from .builder import Builder
from .nodes import Atom, Binding, Block, Constant, Function, GlobalVar, Module, Tuple, Var
from .operator import OPERATORS
from .requirements import Noted, Requirement, collecting
from .type_parser import BOOL, KEY, NAME, NUMBER, SCALAR, SIZE, Constants, Header, TypeParser
from .types import FuncType, TensorType, TupleType
from .verify import signature_of

_VAR = re.compile(r"%(\w+)")
_GLOBAL = re.compile(r"@(\w+)")
_META = re.compile(r"meta\[([^\]]*)\]")
_FIELD = re.compile(r"\.(\d+)")
_LINE = re.compile(r"\s*(?:<--.*?  )?(\S.*?):(\d+)(?:  .*)?\s*$")
_REQUIRED = re.compile(r'([^"=!<;]+)(==|!=|<=|<)([^"=!<;]+)("(?:[^"\\]|\\.)*")?')


def parse_module(text: str, *, constants: Constants | None = None, file: str = "<text>") -> Module:
    """Returns the module that ``text`` spells.

    ``constants`` holds the arrays behind ``meta[name]``. Raises ParseError with line and column
    where the text leaves the grammar, and what ``Builder.emit`` raises where operands do not fit.

    >>> module = parse_module("def @main(%x: float32) -> float32 { %x }")
    >>> str(module.main.type)
    'fn (Tensor[(), float32]) -> Tensor[(), float32]'
    """
    return _Parser(text, constants or {}, file).module()


def parse_function(
    text: str, *, constants: Constants | None = None, file: str = "<text>"
) -> Function:
    """Returns the function that ``text`` spells, as ``fn (...) { ... }``; see ``parse_module``."""
    parser = _Parser(text, constants or {}, file)
    parser.scan.expect("fn")
    function = parser.function()
    if not parser.scan.at_end():
        parser.scan.fail(f"expected the end, found {parser.scan.found()}")
    return function


class _Parser(TypeParser):
    # Functions

    def module(self) -> Module:
        """Headers first, so that functions may call each other in any order."""
        functions: dict[str, Function | PrimFunc] = {}
        schedules: dict[str, Schedule] = {}
        while not self.scan.at_end():
            start = self.scan.position
            if self.scan.sees("prim"):
                self._prim(functions)
                continue
            if self.scan.accept("schedule"):
                name = self._name(_GLOBAL, "the name of a kernel")
                if not isinstance(functions.get(name), PrimFunc):
                    self.scan.fail(f"there is no kernel @{name} before its schedule", start)
                schedules[name] = read_schedule(self.scan)
                continue
            self.scan.expect("def")
            self.sizes = {}
            name = self._name(_GLOBAL, "the name of a function")
            self._check_new(name, functions, start)
            header = self.headers[name] = self._header()
            if header.result is not None:
                signature = FuncType(tuple(p.type for p in header.params), header.result)
                self.globals[name] = GlobalVar(name, signature)
            self._skip_body()
            functions[name] = Function((), Block((), _NOTHING))
        for name, header in self.headers.items():
            self.scan.position = header.position
            function = functions[name] = self._body(header)
            self.globals.setdefault(name, GlobalVar(name, function.type))
        return Module(functions, schedules)

    def _prim(self, functions: dict[str, Function | PrimFunc]) -> None:
        start = self.scan.position
        prim = read_prim(self.scan)
        self._check_new(prim.name, functions, start)
        functions[prim.name] = prim
        self.globals[prim.name] = GlobalVar(prim.name, signature_of(prim))

    def _check_new(self, name: str, functions: Mapping[str, object], start: int) -> None:
        if name in functions:
            self.scan.fail(f"@{name} is defined twice", start)

    def _skip_body(self) -> None:
        start = self.scan.skip()
        self.scan.expect("{")
        self.scan.balanced("}")
        if not self.scan.accept("}"):
            self.scan.fail("this '{' is never closed", start)

    def function(self) -> Function:
        """``(params) -> type { ... }``."""
        return self._body(self._header())

    def _header(self) -> Header:
        self.sizes = sizes = {**self.sizes, **self._ranges()}
        self.scan.expect("(")
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        for _ in self.scan.listed(")"):
            if self.scan.sees("%"):
                name = self._name(_VAR, "a parameter")
                self.scan.expect(":")
                params.append(Var(name, self.type()))
            else:
                attrs.update([self._attr()])
        result = self.type() if self.scan.accept("->") else None
        return Header(tuple(params), attrs, sizes, result, self.scan.skip(), None)

    def _ranges(self) -> dict[str, IntExpr]:
        """``[n in 1..4096, ...]``, if it is there."""
        sizes: dict[str, IntExpr] = {}
        while self.scan.accept("," if sizes else "["):
            name = self._name(SIZE, "the name of a size")
            self.scan.expect("in")
            low = self._name(NUMBER, "the least value of a size")
            self.scan.expect("..")
            sizes[name] = size(name, int(low), int(self._name(NUMBER, "the greatest value")))
        if sizes:
            self.scan.expect("]")
        return sizes

    def _body(self, header: Header) -> Function:
        scope: dict[str, Var] = {}
        for param in header.params:
            if param.name in scope:
                self.scan.fail(f"there are two parameters %{param.name}")
            scope[param.name] = param
        start = self.scan.skip()
        around, self.sizes = self.sizes, header.sizes
        with collecting() as noted:
            body = self.block(scope, noted)
        self.sizes = around
        if header.result is not None and body.result.type != header.result:
            self.scan.fail(f"the body is {body.result.type}, not {header.result}", start)
        return Function(header.params, body, header.attrs, header.span, tuple(noted))

    # Blocks

    def block(self, scope: dict[str, Var], noted: Noted | None = None) -> Block:
        """``{ %0 = ...; ... value }`` among the variables of the scopes around it; that of a
        function begins with its requirements, which join those ``noted``."""
        builder = Builder()
        self.scopes.append(scope)
        self.scan.expect("{")
        while noted is not None and self.scan.accept("requires "):
            noted.append(self._requirement())
            noted.located += 1
        while True:
            start = self.scan.skip()
            name = self._binding_name()
            if name is not None and name in scope:
                self.scan.fail(f"%{name} is bound twice", start)
            before = len(builder.bindings)
            value = self.expr(builder)
            if name is None:
                plain = len(builder.bindings) == before
                self._locate(builder, before)
                if not self.scan.sees("}"):
                    token = self.scan.found()
                    self.scan.fail(f"expected '}}' after the value of the block, found {token}")
                self.scan.expect("}")
                self.scopes.pop()
                return builder.block(value if plain else builder.bindings[-1].var)
            if len(builder.bindings) == before:
                builder.bind(value, value.type)
            self.scan.expect(";")
            self._locate(builder, before, name)
            scope[name] = builder.bindings[-1].var

    def _requirement(self) -> Requirement:
        """``left relation right "message";`` behind the word."""
        start = self.scan.skip()
        match = self.scan.match(_REQUIRED)
        if match is None:
            self.scan.fail("expected a relation of two sizes, such as n == m", start)
        left, right = (self._dim(match[n], start) for n in (1, 3))
        message = json.loads(match[4]) if match[4] else ""
        self.scan.expect(";")
        remark = self.scan.remark()
        line = _LINE.match(remark) if remark is not None else None
        span = Span(line[1], int(line[2])) if line is not None else None
        return Requirement(left, match[2], right, message, span)

    def _binding_name(self) -> str | None:
        """Returns the name in front of ``=``, or None where the value of the block stands."""
        start = self.scan.position
        match = self.scan.match(_VAR)
        if match is not None and self.scan.accept("="):
            return match[1]
        self.scan.position = start
        return None

    def _locate(self, builder: Builder, before: int, name: str = "") -> None:
        """Gives the last binding its name, and the line that the comment behind it names."""
        remark = self.scan.remark()
        line = _LINE.match(remark) if remark is not None else None
        span = Span(line[1], int(line[2])) if line is not None else None
        if len(builder.bindings) == before or (span is None and not name):
            return
        last = builder.bindings[-1]
        node = last.value
        if span is not None and not isinstance(node, Var | Constant | GlobalVar):
            node = replace(node, span=span)
        var = Var(name or last.var.name, last.var.type, span)
        builder.bindings[-1] = Binding(var, node)

    # Expressions

    def expr(self, builder: Builder) -> Atom:
        """An expression as an atom: a call and the like is emitted, and its variable returned."""
        start = self.scan.skip()
        try:
            value = self._primary(builder, start)
        except LoopwrightError as error:
            if error.span is None and not isinstance(error, ParseError):
                error.span = self.scan.span(start)
            raise
        while match := self.scan.follow(_FIELD):
            value = builder.get_item(value, int(match[1]))
        return value

    def _primary(self, builder: Builder, start: int) -> Atom:
        scan = self.scan
        if scan.sees("("):
            return self._tuple(builder)
        if match := scan.match(_VAR):
            var = self._lookup(match[1], start)
            return self._call(builder, var) if scan.sees("(") else var
        if match := scan.match(_GLOBAL):
            target = self._global(match[1], start)
            return self._call(builder, target) if scan.sees("(") else target
        if match := scan.match(_META):
            return self._constant(match[1], start)
        if match := scan.match(BOOL):
            return Constant(np.array(match[1] == "True"))
        if match := scan.match(SCALAR):
            return self._scalar(match, start)
        match = scan.match(NAME)
        if match is None:
            scan.fail(f"expected an expression, found {scan.found()}")
        if match[0] == "if":
            return self._if(builder)
        if match[0] == "while":
            return self._while(builder)
        if match[0] == "for":
            return self._for(builder)
        if match[0] == "fn":
            function = self.function()
            return builder.bind(function, function.type)
        if match[0] not in OPERATORS:
            scan.fail(f"there is no operator {match[0]}", start)
        return self._call(builder, OPERATORS[match[0]])

    def _call(self, builder: Builder, op: Any) -> Atom:
        args: list[Atom] = []
        attrs: dict[str, Any] = {}
        self.scan.expect("(")
        for _ in self.scan.listed(")"):
            start = self.scan.skip()
            if KEY.match(self.scan.text, start):
                attrs.update([self._attr()])
            elif attrs:
                self.scan.fail("an operand after an attribute")
            else:
                args.append(self.expr(builder))
        return builder.emit(op, args, attrs)

    def _tuple(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        fields: list[Atom] = []
        comma = False
        while not self.scan.accept(")"):
            fields.append(self.expr(builder))
            if not self.scan.sees(")"):
                self.scan.expect(",")
                comma = True
        if len(fields) == 1 and not comma:
            return fields[0]
        return builder.bind(Tuple(tuple(fields)), TupleType(tuple(f.type for f in fields)))

    def _if(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        condition = self.expr(builder)
        self.scan.expect(")")
        then = self.block({})
        self.scan.expect("else")
        return builder.cond(condition, then, self.block({}))

    def _while(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        scope, initial = self._carry(builder, {})
        params = tuple(scope.values())
        condition = self.block(dict(scope))
        self.scan.expect("do")
        return builder.while_loop(params, initial, condition, self.block(scope))

    def _for(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        index = Var(self._name(_VAR, "the index of the loop"), TensorType((), INT64))
        self.scan.expect("<")
        extent = self.expr(builder)
        if not self.scan.sees(")"):
            self.scan.expect(";")
        scope, initial = self._carry(builder, {index.name: index})
        params = tuple(scope.values())[1:]
        return builder.for_loop(index, extent, params, initial, self.block(scope))

    def _carry(self, builder: Builder, scope: dict[str, Var]) -> tuple[dict[str, Var], list[Atom]]:
        """``scope`` with the carried variables, and what these begin as."""
        initial: list[Atom] = []
        for _ in self.scan.listed(")"):
            start = self.scan.skip()
            name = self._name(_VAR, "a carried variable")
            if name in scope:
                self.scan.fail(f"%{name} is bound twice", start)
            self.scan.expect("=")
            initial.append(self.expr(builder))
            scope[name] = Var(name, initial[-1].type)
        return scope, initial

    # Atoms

    def _name(self, pattern: re.Pattern[str], what: str) -> str:
        match = self.scan.match(pattern)
        if match is None:
            self.scan.fail(f"expected {what}, found {self.scan.found()}")
        return match[1]

    def _lookup(self, name: str, start: int) -> Var:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        self.scan.fail(f"%{name} is not bound here", start)

    def _global(self, name: str, start: int) -> GlobalVar:
        if name in self.globals:
            return self.globals[name]
        if name in self.headers:
            self.scan.fail(f"@{name} needs a result type, since it is called before its end", start)
        self.scan.fail(f"there is no function @{name}", start)

    def _constant(self, name: str, start: int) -> Constant:
        if name not in self.constants:
            if name not in self.arrays:
                self.scan.fail(f"no array was given for meta[{name}]", start)
            self.constants[name] = Constant(np.asarray(self.arrays[name]), name)
        return self.constants[name]

    # Types and attributes


_NOTHING = Constant(np.zeros((), "bool"))
"""Placeholder for a function whose body has not been read yet."""
