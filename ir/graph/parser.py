"""Read the text that ``printer.py`` writes; the grammar stands there.

What Relay's texts (0.14) have beyond it is read as well: an operand may be an expression of its
own (``exp(%x + 1f)``, with infix ``+ - * /`` and comparisons), ``let %x: type = value;`` may bind a
name again, a case of a match may be an expression without braces, a function may be called where it
stands, and types of parameters and results may be left out, or be ``_``: ``inference.py`` finds
them. Functions and types that the text uses and does not define are those of the prelude
(``prelude.py``). Comments behind a binding that name a line (``/* model.py:3 */``) become its span
again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dims import size
from ..loop.parser import read_prim
from ..loop.prim import PrimFunc
from ..schedule.parser import read_schedule
from ..schedule.schedule import Schedule
from .exhaustive import missing_case
from .expression_parser import GLOBAL, VARIABLE, ExpressionParser
from .nodes import Block, Constant, Constructor, DataDef, Function, GlobalVar, Module, Var
from .operator import OPERATORS
from .prelude import with_prelude
from .requirements import Requirement, collecting
from .type_parser import NUMBER, SIZE, Constants, Header
from .types import DataType, FuncType, TypeVar
from .verify import signature_of

_VERSION = re.compile(r'\s*#\[version = "[\d.]+"\]')
_DATA = re.compile(r"^\s*(?:extern\s+)?type\s+(\w+)\s*(?:\[([^\]]*)\])?", re.MULTILINE)
_REQUIRED = re.compile(r'([^"=!<;]+)(==|!=|<=|<)([^"=!<;]+)("(?:[^"\\]|\\.)*")?')


def parse_module(text: str, *, constants: Constants | None = None, file: str = "<text>") -> Module:
    """Returns the module that ``text`` spells.

    ``constants`` holds the arrays behind ``meta[name]``. Raises ParseError with line and column
    where the text leaves the grammar, and what ``Builder.emit`` raises where operands do not fit.

    >>> module = parse_module("def @main(%x: float32) -> float32 { %x }")
    >>> str(module.main.type)
    'fn (Tensor[(), float32]) -> Tensor[(), float32]'
    """
    version = _VERSION.match(text)
    if version is not None:  # Relay's own texts have comments of a line as well
        rest = re.sub(r"//.*", lambda comment: " " * len(comment[0]), text[version.end() :])
        text = " " * version.end() + rest
    parser = _Parser(with_prelude(text), constants or {}, file)
    parser.is_relays = version is not None
    return parser.module()


def parse_function(
    text: str, *, constants: Constants | None = None, file: str = "<text>"
) -> Function:
    """Returns the function that ``text`` spells, as ``fn (...) { ... }``; see ``parse_module``."""
    parser = _Parser(text, constants or {}, file)
    parser.scan.expect("fn")
    function = parser.alone()
    if not parser.scan.at_end():
        parser.scan.fail(f"expected the end, found {parser.scan.found()}")
    return function


class _Parser(ExpressionParser):
    def __init__(self, text: str, constants: Constants, file: str) -> None:
        super().__init__(text, constants, file)
        for match in _DATA.finditer(text):
            self.data_types[match[1]] = len((match[2] or "").split(",")) if match[2] else 0

    # Functions

    def module(self) -> Module:
        """Headers first, so that functions may call each other in any order."""
        functions: dict[str, Function | PrimFunc] = {}
        schedules: dict[str, Schedule] = {}
        types: dict[str, DataDef] = {}
        headers: dict[str, Header] = {}
        while not self.scan.at_end():
            start = self.scan.position
            if self.scan.sees("prim"):
                self._prim(functions)
                continue
            if self.scan.accept("schedule"):
                name = self.name(GLOBAL, "the name of a kernel")
                if not isinstance(functions.get(name), PrimFunc):
                    self.scan.fail(f"there is no kernel @{name} before its schedule", start)
                schedules[name] = read_schedule(self.scan)
                continue
            if self.scan.accept("type ") or self.scan.accept("extern type "):
                data = self._data(is_extern=self.scan.text.startswith("extern", start))
                if data.name in types:
                    self.scan.fail(f"the type {data.name} is defined twice", start)
                types[data.name] = data
                continue
            self.scan.expect("def")
            self.sizes, self.names = {}, {}
            name = self.name(GLOBAL, "the name of a function")
            self._check_new(name, functions, start)
            header = headers[name] = self._header()
            params = tuple(p.type for p in header.params)
            signature = FuncType(params, header.result, header.type_params)
            self.globals[name] = GlobalVar(name, signature)
            self._skip_body()
            functions[name] = Function((), Block((), _NOTHING))
        for name, header in headers.items():
            self.scan.position = header.position
            functions[name] = self._body(header)
        self.inference.finish()
        if self.inference.is_used:
            resolve = self.inference.resolve
            functions = {
                n: resolve(f) if isinstance(f, Function) else f for n, f in functions.items()
            }
        self._check_cases(types)
        return Module(functions, schedules, types)

    def _check_cases(self, types: Mapping[str, DataDef]) -> None:
        """Fails at a match that has no case for some value."""
        for start, type, cases in self.matches:
            missing = missing_case(cases, self.inference.known(type), types)
            if missing is not None:
                self.scan.fail(f"no case for {missing}; match? fails for such a value", start)

    def alone(self) -> Function:
        """A function that is the whole text."""
        function = self.function()
        self.inference.finish()
        return self.inference.resolve(function) if self.inference.is_used else function

    def _data(self, is_extern: bool) -> DataDef:
        """``name[A, ...] { Constructor(type, ...), ... }``."""
        name = self.name(SIZE, "the name of a type")
        self.names = {}
        params = self._type_params()
        made: list[Constructor] = []
        result = DataType(name, tuple(map(TypeVar, params)))
        if not is_extern:
            self.scan.expect("{")
        for tag, _ in enumerate(() if is_extern else self.scan.listed("}")):
            start = self.scan.skip()
            constructor = self.name(SIZE, "the name of a constructor")
            if constructor in self.constructors or constructor in OPERATORS:
                self.scan.fail(f"there is something else that is called {constructor}", start)
            fields = self._types() if self.scan.accept("(") else ()
            signature = FuncType(fields, result, params)
            made.append(Constructor(constructor, signature, data=name, tag=tag))
            self.constructors[constructor] = made[-1]
        if not made and not is_extern:
            self.scan.fail(f"the type {name} has no constructor, so that it has no values")
        return DataDef(name, params, tuple(made))

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
        around = self.names
        type_params = self._type_params_and_ranges()
        sizes = self.sizes
        self.scan.expect("(")
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        for _ in self.scan.listed(")"):
            if self.scan.sees("%"):
                name = self.name(VARIABLE, "a parameter")
                type = self.type() if self.scan.accept(":") else self.inference.hole()
                params.append(Var(name, type))
            else:
                attrs.update([self._attr()])
        result = self.type() if self.scan.accept("->") else self.inference.hole()
        names, self.names = self.names, around
        position = self.scan.skip()
        return Header(tuple(params), attrs, sizes, result, position, None, type_params, names)

    def _type_params_and_ranges(self) -> tuple[str, ...]:
        """``[A, n in 1..4096, ...]``, if it is there: type parameters and ranges of sizes."""
        names: list[str] = []
        self.sizes = dict(self.sizes)
        for _ in self.scan.listed("]") if self.scan.accept("[") else ():
            name = self.name(SIZE, "the name of a size or a type")
            if not self.scan.accept("in "):
                self.names = {**self.names, name: TypeVar(name)}
                names.append(name)
                continue
            low = self.name(NUMBER, "the least value of a size")
            self.scan.expect("..")
            high = self.name(NUMBER, "the greatest value")
            self.sizes[name] = size(name, int(low), int(high))
        return tuple(names)

    def _body(self, header: Header) -> Function:
        scope: dict[str, Var] = {}
        for param in header.params:
            if param.name in scope:
                self.scan.fail(f"there are two parameters %{param.name}")
            scope[param.name] = param
        start = self.scan.skip()
        around = self.sizes, self.names
        self.sizes, self.names = header.sizes, header.names
        with collecting() as noted:
            self.scan.expect("{")
            while self.scan.accept("requires "):
                noted.append(self._requirement())
                noted.located += 1
            body = self.bindings(scope)
            self.scan.expect("}")
            self.inference.progress()
        self.sizes, self.names = around
        if not self.inference.unify(body.result.type, header.result):
            types = tuple(map(self.inference.known, (body.result.type, header.result)))
            self.scan.fail(f"the body is {types[0]}, not {types[1]}", start)
        needed, names = tuple(noted), header.type_params
        return Function(header.params, body, header.attrs, header.span, needed, names)

    def _requirement(self) -> Requirement:
        """``left relation right "message";`` behind the word."""
        start = self.scan.skip()
        match = self.scan.match(_REQUIRED)
        if match is None:
            self.scan.fail("expected a relation of two sizes, such as n == m", start)
        left, right = (self._dim(match[n], start) for n in (1, 3))
        message = json.loads(match[4]) if match[4] else ""
        self.scan.expect(";")
        return Requirement(left, match[2], right, message, self.line())


_NOTHING = Constant(np.zeros((), "bool"))
"""Placeholder for a function whose body has not been read yet."""
