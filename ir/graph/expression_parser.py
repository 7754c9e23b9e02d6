"""Parser of the expressions and blocks of the graph IR; ``parser.py`` reads what holds them."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from ..dtype import INT64
from ..errors import LoopwrightError, ParseError
from ..span import Span
from .builder import Builder
from .inference import InferringBuilder
from .nodes import (
    Atom,
    Binding,
    Block,
    Case,
    Constant,
    Constructor,
    ConstructorPattern,
    Function,
    GlobalVar,
    Pattern,
    Var,
    Wildcard,
)
from .operator import OPERATORS
from .prelude import prelude
from .relay_operators import emit_relays
from .type_parser import BOOL, KEY, NAME, SCALAR, SIZE, Constants, TypeParser
from .types import FuncType, TensorType, TupleType, Type

VARIABLE = re.compile(r"%(\w+)")
GLOBAL = re.compile(r"@(\w+)")
_INFIX = re.compile(r"==|!=|<=|>=|[-+*/<>](?!=)")
_OPERATORS = {
    "==": ("equal", 1),
    "!=": ("not_equal", 1),
    "<": ("less", 1),
    "<=": ("less_equal", 1),
    ">": ("greater", 1),
    ">=": ("greater_equal", 1),
    "+": ("add", 2),
    "-": ("subtract", 2),
    "*": ("multiply", 3),
    "/": ("divide", 3),
}
"""The operator of each infix sign, and how strongly it binds."""

_REFERENCES = {"ref": 1, "ref_read": 1, "ref_write": 2}
"""The operations on references, and how many operands they take."""

_META = re.compile(r"meta\[([^\]]*)\]")
_PARTIAL = re.compile(r"\?")
_FIELD = re.compile(r"\.(\d+)")
_LINE = re.compile(r"\s*(?:<--.*?  )?(\S.*?):(\d+)(?:  .*)?\s*$")


class ExpressionParser(TypeParser):
    """Reads expressions into the bindings of blocks."""

    def __init__(self, text: str, constants: Constants, file: str) -> None:
        super().__init__(text, constants, file)
        self.is_relays = False  # the text is one that Relay printed
        self.constructors: dict[str, Constructor] = {}
        self.matches: list[tuple[int, Type, list[Case]]] = []  # those that have all cases

    @abstractmethod
    def function(self) -> Function:
        """``(params) -> type { ... }``."""

    def block(self, scope: dict[str, Var]) -> Block:
        """``{ %0 = ...; ... value }`` among the variables of the scopes around it."""
        self.scan.expect("{")
        block = self.bindings(scope)
        self.scan.expect("}")
        return block

    def bindings(self, scope: dict[str, Var]) -> Block:
        """``%0 = ...; ... value`` among the variables of the scopes around it."""
        builder = InferringBuilder(self.inference)
        self.scopes.append(scope)
        while True:
            start = self.scan.skip()
            is_let = self.scan.accept("let ")
            name, type = self._binding_name(is_let)
            if name is not None and name in scope and not is_let:
                self.scan.fail(f"%{name} is bound twice", start)
            before = len(builder.bindings)
            value = self._recursive(builder, name) if is_let else self.expr(builder)
            if type is not None and not builder.agree(value.type, type):
                given = builder.known(value.type)
                self.scan.fail(f"%{name} is {given}, not {builder.known(type)}", start)
            end = self.scan.position
            if name is None and self.scan.accept(";"):
                continue  # a value whose effect is all that counts
            self.scan.position = end  # there may be a comment, which is the value's line
            if name is None:
                plain = len(builder.bindings) == before
                self._locate(builder, before)
                if not (self.scan.sees("}") or self.scan.sees(",")):
                    token = self.scan.found()
                    self.scan.fail(f"expected '}}' after the value of the block, found {token}")
                self.scopes.pop()
                return builder.block(value if plain else builder.bindings[-1].var)
            if len(builder.bindings) == before:
                builder.bind(value, value.type)
            self.scan.expect(";")
            self._locate(builder, before, name)
            scope[name] = builder.bindings[-1].var

    def _recursive(self, builder: Builder, name: str | None) -> Atom:
        """The value of a ``let``. LoopwrightTypeError for a function that calls itself by the name
        that it is bound to: such a one is a function of the module."""
        try:
            return self.expr(builder)
        except ParseError as error:
            if error.message.endswith(f"%{name} is not bound here"):
                error.hint = f"def @{name}: functions of the module may call themselves"
            raise

    def _binding_name(self, is_let: bool) -> tuple[str | None, Type | None]:
        """Returns the name in front of ``=`` and its type if it is written, or None where the value
        of the block stands."""
        start = self.scan.position
        match = self.scan.match(VARIABLE)
        if match is not None:
            type = self.type() if self.scan.accept(":") else None
            is_equality = self.scan.sees("==") or self.scan.sees("=>")
            if not is_equality and self.scan.accept("="):
                return match[1], type
        if is_let:
            self.scan.fail(f"expected a variable and '=', found {self.scan.found()}")
        self.scan.position = start
        return None, None

    def _locate(self, builder: Builder, before: int, name: str = "") -> None:
        """Gives the last binding its name, and the line that the comment behind it names."""
        span = self.line()
        if len(builder.bindings) == before or (span is None and not name):
            return
        last = builder.bindings[-1]
        node = last.value
        if span is not None and not isinstance(node, Var | Constant | GlobalVar):
            node = replace(node, span=span)
        var = Var(name or last.var.name, last.var.type, span)
        builder.bindings[-1] = Binding(var, node)

    def line(self) -> Span | None:
        """Returns the line that the comment behind the last piece names."""
        remark = self.scan.remark()
        match = _LINE.match(remark) if remark is not None else None
        return Span(match[1], int(match[2])) if match is not None else None

    # Expressions

    def expr(self, builder: Builder, strength: int = 0) -> Atom:
        """An expression as an atom: a call and the like is emitted, and its variable returned.
        Infix operators that bind no stronger than ``strength`` are left behind it."""
        start = self.scan.skip()
        try:
            value = self._suffixed(builder, start)
            while True:
                end = self.scan.position  # a comment behind the expression is not an operator's
                match = self.scan.match(_INFIX)
                name, binds = _OPERATORS[match[0]] if match is not None else ("", 0)
                if binds <= strength:
                    self.scan.position = end
                    break
                value = builder.emit(OPERATORS[name], (value, self.expr(builder, binds)))
        except LoopwrightError as error:
            if error.span is None and not isinstance(error, ParseError):
                error.span = self.scan.span(start)
                error.notes = (*self.scan.marked(error.span), *error.notes)
            raise
        return value

    def _suffixed(self, builder: Builder, start: int) -> Atom:
        """A value, of which fields may be taken and which may be called."""
        value = self._primary(builder, start)
        while True:
            if match := self.scan.follow(_FIELD):
                value = builder.get_item(value, int(match[1]))
            elif isinstance(value, Var) and self.scan.text.startswith("(", self.scan.position):
                value = self._call(builder, value)
            else:
                return value

    def _primary(self, builder: Builder, start: int) -> Atom:
        scan = self.scan
        if scan.sees("("):
            return self._tuple(builder)
        if match := scan.match(VARIABLE):
            return self._callee(builder, self._lookup(match[1], start))
        if match := scan.match(GLOBAL):
            return self._callee(builder, self._global(match[1], start))
        if match := scan.match(_META):
            return self._constant(match[1], start)
        if match := scan.match(BOOL):
            return Constant(np.array(match[1] == "True"))
        if match := scan.match(SCALAR):
            return self._scalar(match, start)
        if scan.accept("-"):
            return builder.emit(OPERATORS["negative"], (self.expr(builder, 3),))
        match = scan.match(NAME)
        if match is None:
            scan.fail(f"expected an expression, found {scan.found()}")
        word = match[0]
        if word in ("if", "while", "for"):
            return {"if": self._if, "while": self._while, "for": self._for}[word](builder)
        if word == "match":
            return self._match(builder, start)
        if word == "fn":
            function = self.function()
            return builder.bind(function, function.type)
        if word in self.constructors:
            constructor = self.constructors[word]
            if not constructor.arity and not scan.sees("("):
                return builder.emit(constructor, ())
            return self._callee(builder, constructor)
        if word in _REFERENCES:
            args, _ = self._operands(builder)
            if len(args) != _REFERENCES[word]:
                scan.fail(f"{word} takes {_REFERENCES[word]} operands, not {len(args)}", start)
            return builder.reference(word, args)
        if self.is_relays:
            args, attrs = self._operands(builder)
            return emit_relays(builder, word, args, attrs) or self._fail_unknown(word, start)
        if word not in OPERATORS:
            self._fail_unknown(word, start)
        return self._call(builder, OPERATORS[word])

    def _callee(self, builder: Builder, function: Var | GlobalVar) -> Atom:
        """Returns a call of a function, if operands follow; else the function as a value, of one
        type where it is over type parameters."""
        if self.scan.sees("("):
            return self._call(builder, function)
        kind = self.inference.known(function.type)
        if not isinstance(kind, FuncType) or not kind.type_params:
            return function
        instance = self.inference.instance(kind)
        if isinstance(function, GlobalVar):
            return replace(function, type=instance)
        return builder.bind(function, instance)

    def _fail_unknown(self, word: str, start: int) -> NoReturn:
        close = get_close_matches(word, [*self.constructors, *OPERATORS], 1)
        hint = f"; {close[0]}?" if close else ""
        if word[0].isupper():
            self.scan.fail(f"there is no constructor {word}{hint}", start)
        self.scan.fail(f"there is no operator {word}{hint}", start)

    def _call(self, builder: Builder, op: Any) -> Atom:
        args, attrs = self._operands(builder)
        return builder.emit(op, args, attrs)

    def _operands(self, builder: Builder) -> tuple[list[Atom], dict[str, Any]]:
        """``(operand, ..., key=value, ...)``."""
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
        return args, attrs

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
        return builder.make_tuple(fields)

    def _if(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        condition = self.expr(builder)
        self.scan.expect(")")
        then = self.block({})
        self.scan.expect("else")
        return builder.cond(condition, then, self.block({}))

    def _match(self, builder: Builder, start: int) -> Atom:
        """``match (value) { pattern => block, ... }`` behind the word."""
        complete = not self.scan.follow(_PARTIAL)
        self.scan.expect("(")
        value = self.expr(builder)
        self.scan.expect(")")
        self.scan.expect("{")
        cases: list[Case] = []
        for _ in self.scan.listed("}"):
            scope: dict[str, Var] = {}
            pattern = self._pattern(value.type, scope)
            self.scan.expect("=>")
            if self.scan.sees("{"):
                cases.append(Case(pattern, self.block(scope)))
                continue
            cases.append(Case(pattern, self.bindings(scope)))
        if not cases:
            self.scan.fail("a match without cases")
        if complete:
            self.matches.append((start, value.type, cases))
        return builder.match(value, cases, complete)

    def _pattern(self, type: Type, scope: dict[str, Var]) -> Pattern:
        """A pattern for values of a type; its variables join the ``scope``."""
        start = self.scan.skip()
        if match := self.scan.match(VARIABLE):
            if self.scan.accept(":"):
                self._unify_pattern(type, self.type(), start)
            if match[1] in scope:
                self.scan.fail(f"%{match[1]} is bound twice", start)
            scope[match[1]] = var = Var(match[1], type)
            return var
        if self.scan.accept("("):
            types: list[Type] = []
            fields: list[Pattern] = []
            for _ in self.scan.listed(")"):
                types.append(self.inference.hole())
                fields.append(self._pattern(types[-1], scope))
            self._unify_pattern(type, TupleType(tuple(types)), start)
            return ConstructorPattern(None, tuple(fields))
        name = self.name(SIZE, "a pattern")
        if name == "_":
            return Wildcard()
        if name not in self.constructors:
            close = get_close_matches(name, self.constructors, 1)
            hint = f"; {close[0]}?" if close else ""
            self.scan.fail(f"there is no constructor {name}{hint}", start)
        constructor = self.constructors[name]
        signature = self.inference.instance(constructor.type)
        self._unify_pattern(type, signature.result, start)
        fields = []
        for _ in self.scan.listed(")") if self.scan.accept("(") else ():
            kind = signature.params[len(fields)] if len(fields) < constructor.arity else type
            fields.append(self._pattern(self.inference.known(kind), scope))
        if len(fields) != constructor.arity:
            self.scan.fail(
                f"{name} has {constructor.arity} fields, and the pattern {len(fields)}", start
            )
        return ConstructorPattern(constructor, tuple(fields))

    def _unify_pattern(self, type: Type, wanted: Type, start: int) -> None:
        if not self.inference.unify(type, wanted):
            types = tuple(map(self.inference.known, (wanted, type)))
            self.scan.fail(f"a pattern of {types[0]} for a value of {types[1]}", start)

    def _while(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        scope, initial = self._carry(builder, {})
        params = tuple(scope.values())
        condition = self.block(dict(scope))
        self.scan.expect("do")
        return builder.while_loop(params, initial, condition, self.block(scope))

    def _for(self, builder: Builder) -> Atom:
        self.scan.expect("(")
        index = Var(self.name(VARIABLE, "the index of the loop"), TensorType((), INT64))
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
            name = self.name(VARIABLE, "a carried variable")
            if name in scope:
                self.scan.fail(f"%{name} is bound twice", start)
            self.scan.expect("=")
            initial.append(self.expr(builder))
            scope[name] = Var(name, initial[-1].type)
        return scope, initial

    # Atoms

    def _lookup(self, name: str, start: int) -> Var:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        self.scan.fail(f"%{name} is not bound here", start)

    def _global(self, name: str, start: int) -> GlobalVar:
        if name in self.globals:
            return self.globals[name]
        names = [f"@{name}" for name in self.globals] + [*prelude()]
        close = get_close_matches(f"@{name}", names, 1)
        hint = f"; {close[0]}?" if close else ""
        self.scan.fail(f"there is no function @{name}{hint}", start)

    def _constant(self, name: str, start: int) -> Constant:
        if name not in self.constants:
            if name not in self.arrays:
                self.scan.fail(f"no array was given for meta[{name}]", start)
            self.constants[name] = Constant(np.asarray(self.arrays[name]), name)
        return self.constants[name]
