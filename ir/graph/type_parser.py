"""Parser of types, sizes and attributes of the graph IR."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, size, substitute, symbols
from ..dims_parser import parse_dim
from ..dtype import DTYPES, dtype_named, literal_dtypes
from ..errors import ParseError
from ..scanner import Scanner
from ..span import Span
from .inference import Inference
from .nodes import Constant, GlobalVar, Var
from .prelude import prelude
from .types import DataType, FuncType, RefType, TensorType, TupleType, Type, TypeVar

Constants = Mapping[str, "np.ndarray[Any, Any]"]
NAME = re.compile(r"[A-Za-z_][\w.]*")
KEY = re.compile(r"([A-Za-z_]\w*)\s*=")
_SUFFIXES = literal_dtypes()
_DIGITS = r"(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf|nan)"
SCALAR = re.compile(rf"(-?{_DIGITS}(?:[-+]{_DIGITS}j)?)({'|'.join(_SUFFIXES)})(?![\w.])")
BOOL = re.compile(r"(True|False)\b")
SIZE = re.compile(r"([A-Za-z_][\w.]*)")
NUMBER = re.compile(r"(\d+)")
_PLAIN: dict[str, Any] = {"True": True, "False": False, "None": None}


@dataclass(slots=True)
class Header:
    """The part of a function in front of its body."""

    params: tuple[Var, ...]
    attrs: dict[str, Any]
    sizes: dict[str, IntExpr]
    result: Type  # a hole if the text leaves it out
    position: int  # of the body
    span: Span | None
    type_params: tuple[str, ...]
    names: dict[str, TypeVar]  # type parameters, those of functions around it among them


class TypeParser:
    """Reads types, sizes and attributes. ``_`` is a type, and ``?`` a size, of any kind."""

    def __init__(self, text: str, constants: Constants, file: str) -> None:
        self.scan = Scanner(text, file)
        self.arrays = constants
        self.constants: dict[str, Constant] = {}
        self.globals: dict[str, GlobalVar] = {}
        self.scopes: list[dict[str, Var]] = []
        self.headers: dict[str, Header] = {}
        self.sizes: dict[str, IntExpr] = {}  # of the function that is read, those with a range
        self.names: dict[str, TypeVar] = {}  # type parameters of what is read
        self.data_types: dict[str, int] = {}  # the number of parameters of each
        self.inference = Inference(self.scan)
        self._unnamed = 0

    def _scalar(self, match: re.Match[str], start: int) -> Constant:
        digits, dtype = match[1], _SUFFIXES[match[2]]
        if digits[-1] == "j" or dtype.is_complex:
            if not dtype.is_complex:
                self.scan.fail(f"{digits} is complex64 ({digits}c64) or complex128", start)
            return Constant(np.array(complex(digits), dtype.numpy))
        integer = re.fullmatch(r"-?\d+", digits)
        if not dtype.is_float and not integer:
            self.scan.fail(f"a fraction is float32 ({digits}f) or float64 ({digits}f64)", start)
        try:
            value = float(digits) if dtype.is_float else int(digits)
            return Constant(np.array(value, dtype.numpy))
        except OverflowError:
            self.scan.fail(f"{digits} does not fit {dtype}", start)

    def type(self) -> Type:
        """Returns a type; a dtype alone is a scalar's."""
        scan = self.scan
        if scan.accept("("):
            return TupleType(self._types())
        match = scan.match(NAME)
        if match is None:
            scan.fail(f"expected a type, found {scan.found()}")
        if match[0] == "fn":
            around = self.names
            names = self._type_params()
            scan.expect("(")
            params = self._types()
            scan.expect("->")
            kind = FuncType(params, self.type(), names)
            self.names = around
            return kind
        if match[0] == "_":
            return self.inference.hole()
        if match[0] in self.names:
            return self.names[match[0]]
        if match[0] == "ref" and scan.accept("("):
            content = self.type()
            scan.expect(")")
            return RefType(content)
        if match[0] in self.data_types:
            return self._data_type(match[0], match.start())
        if match[0] != "Tensor":
            return TensorType((), DTYPES[self._dtype(match[0], match.start())])
        scan.expect("[")
        scan.expect("(")
        shape = tuple(self._size() for _ in scan.listed(")"))
        scan.expect(",")
        start = scan.skip()
        dtype = scan.match(NAME)
        name = self._dtype(dtype[0] if dtype is not None else scan.found(), start)
        scan.expect("]")
        return TensorType(shape, DTYPES[name])

    def _type_params(self) -> tuple[str, ...]:
        """``[A, ...]``, if it is there; the names are types from then on."""
        if not self.scan.accept("["):
            return ()
        names = [self._type_param() for _ in self.scan.listed("]")]
        return tuple(names)

    def _type_param(self) -> str:
        name = self.name(SIZE, "the name of a type parameter")
        self.names = {**self.names, name: TypeVar(name)}
        return name

    def _data_type(self, name: str, start: int) -> DataType:
        """A data type behind its name."""
        args: tuple[Type, ...] = ()
        if self.scan.accept("["):
            args = tuple(self.type() for _ in self.scan.listed("]"))
        wanted = self.data_types[name]
        if len(args) != wanted:
            self.scan.fail(f"{name} is a type of {wanted} types, not {len(args)}", start)
        return DataType(name, args)

    def name(self, pattern: re.Pattern[str], what: str) -> str:
        """Takes what ``pattern`` matches, and returns its first group."""
        match = self.scan.match(pattern)
        if match is None:
            self.scan.fail(f"expected {what}, found {self.scan.found()}")
        return match[1]

    def _types(self) -> tuple[Type, ...]:
        """Types up to the closing bracket, which is taken."""
        return tuple(self.type() for _ in self.scan.listed(")"))

    def _dtype(self, name: str, start: int) -> str:
        if dtype_named(name) is None:
            types = [*self.data_types, *self.names, *DTYPES, *prelude()]
            close = get_close_matches(name, types, 1)
            hint = f"; {close[0]}?" if close else ""
            self.scan.fail(f"there is no type {name}{hint}", start)
        return name

    def _size(self) -> IntExpr:
        start = self.scan.skip()
        if self.scan.accept("?"):
            self._unnamed += 1
            return size(f"any{self._unnamed}")
        return self._dim(self.scan.balanced(",)]").strip(), start)

    def _dim(self, text: str, start: int) -> IntExpr:
        """Returns an expression over the function's sizes."""
        try:
            expr = parse_dim(text)
        except ParseError as error:
            self.scan.fail(error.message, start)
        return substitute(expr, {n: self.sizes.get(n, size(n)) for n in symbols(expr)})

    def _attr(self) -> tuple[str, Any]:
        match = self.scan.match(KEY)
        if match is None:
            self.scan.fail(f"expected an attribute, found {self.scan.found()}")
        return match[1], self._value()

    def _value(self) -> Any:
        """Returns an attribute's value."""
        scan = self.scan
        if scan.sees("["):
            scan.expect("[")
            return tuple(self._value() for _ in scan.listed("]"))
        start = scan.skip()
        text = scan.balanced(",)]").strip()
        if text in _PLAIN:
            return _PLAIN[text]
        if text.startswith('"'):
            try:
                return json.loads(text)
            except ValueError:
                scan.fail("this string does not end", start)
        if text.endswith(("j", "j)")):
            try:
                return complex(text)
            except ValueError:
                scan.fail(f"{text} is not a number", start)
        if match := SCALAR.fullmatch(text):
            integer = re.fullmatch(r"-?\d+", match[1]) and (match[2] or "i")[0] != "f"
            return int(match[1]) if integer else float(match[1])
        scan.position = start
        return self._size()
