"""Parser of types, sizes and attributes of the graph IR."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, size, substitute, symbols
from ..dims_parser import parse_dim
from ..dtype import DTYPES, dtype_named, literal_dtypes
from ..errors import ParseError
from ..scanner import Scanner
from ..span import Span
from .nodes import Constant, GlobalVar, Var
from .types import FuncType, TensorType, TupleType, Type

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
    params: tuple[Var, ...]
    attrs: dict[str, Any]
    sizes: dict[str, IntExpr]
    result: Type | None
    position: int  # of the body
    span: Span | None


class TypeParser:
    """Reads types, sizes and attributes."""

    def __init__(self, text: str, constants: Constants, file: str) -> None:
        self.scan = Scanner(text, file)
        self.arrays = constants
        self.constants: dict[str, Constant] = {}
        self.globals: dict[str, GlobalVar] = {}
        self.scopes: list[dict[str, Var]] = []
        self.headers: dict[str, Header] = {}
        self.sizes: dict[str, IntExpr] = {}  # of the function that is read, those with a range

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
            scan.expect("(")
            params = self._types()
            scan.expect("->")
            return FuncType(params, self.type())
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

    def _types(self) -> tuple[Type, ...]:
        """Types up to the closing bracket, which is taken."""
        return tuple(self.type() for _ in self.scan.listed(")"))

    def _dtype(self, name: str, start: int) -> str:
        if dtype_named(name) is None:
            self.scan.fail(f"there is no dtype {name}", start)
        return name

    def _size(self) -> IntExpr:
        start = self.scan.skip()
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
