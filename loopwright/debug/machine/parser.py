"""The LLVM text of a kernel read back: functions, blocks, and instructions on named values.

The subset is what ``codegen`` writes. Anything else is an error, so that an instruction that is
new to the writer is new to the interpreter, too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.errors import InternalError

_TOKEN = re.compile(r'%[\w.]+|@[\w.]+|!\w*|"[^"]*"|-?[\w.+]+|\.\.\.|[<>\[\](){},=*]')
_NUMPY = {
    "i1": np.dtype(np.bool_),
    "half": np.dtype(np.float16),
    "bfloat": np.dtype(np.int16),  # its bits
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "ptr": np.dtype(np.int64),
}
_FLAGS = frozenset(
    ["nsw", "nuw", "exact", "fast", "contract", "reassoc", "nnan", "ninf", "nsz", "arcp", "afn"]
    + ["disjoint", "nneg", "inbounds", "tail", "notail", "noundef", "samesign"]
)


class Type(NamedTuple):
    """A type of values: of elements, and of vectors how many there are; 0 for a scalar."""

    element: str
    lanes: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of an element; an int that NumPy has not is in the next longer one."""
        dtype = _NUMPY.get(self.element)
        if dtype is None:
            bits = max(8, 1 << (int(self.element[1:]) - 1).bit_length())
            dtype = _NUMPY[self.element] = np.dtype(f"int{bits}")
        return dtype

    @property
    def bits(self) -> int:
        """Bits of an element."""
        name = self.element
        return int(name[1:]) if name[0] == "i" else 8 * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Operand:
    """A value by name, or a ``constant``. A label has no type."""

    type: Type | None
    name: str = ""
    constant: Any = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """``opcode`` says which one, ``more`` what it depends on besides operands: the predicate of a
    comparison, the function of a call, the element type of an address, an alignment."""

    opcode: str
    result: str
    type: Type | None
    operands: tuple[Operand, ...]
    more: Any
    text: str


@dataclass(frozen=True, slots=True)
class Function:
    """``blocks`` by label; ``first`` is where it begins."""

    name: str
    params: tuple[str, ...]
    blocks: dict[str, list[Instruction]]
    first: str


@dataclass(slots=True)
class Module:
    """Functions by name, and globals: bytes and alignment by name."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    globals: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])


def parse_llvm(text: str) -> Module:
    """Returns the functions and globals of LLVM text. InternalError for what codegen never writes.

    >>> module = parse_llvm("define i64 @f(i64 %x) {\\n  %y = add i64 %x, 1\\n  ret i64 %y\\n}")
    >>> [i.opcode for i in module.functions["f"].blocks["entry"]]
    ['add', 'ret']
    """
    module = Module()
    lines = iter(_joined(text))
    for line in lines:
        if line.startswith("define"):
            function = _function(line, lines)
            module.functions[function.name] = function
        elif line.startswith("@"):
            _global(line, module)
        elif not line.startswith(("declare", "!", ";", "attributes")):
            raise InternalError(f"LLVM text outside of functions: {line}")
    return module


def _joined(text: str) -> Iterator[str]:
    """Yields lines without comments; a header that goes on is one line."""
    held = ""
    for line in text.split("\n"):
        line = line.split(";")[0].strip()
        if not line:
            continue
        held = f"{held} {line}" if held else line
        if held.startswith("define") and not held.endswith("{"):
            continue
        yield held
        held = ""


def _function(header: str, lines: Iterator[str]) -> Function:
    match = re.match(r"define .*?@([\w.]+)\((.*?)\)", header)
    if match is None:
        raise InternalError(f"a header of a function: {header}")
    params = tuple(part.split()[-1] for part in match[2].split(",") if part.strip())
    blocks: dict[str, list[Instruction]] = {}
    label = "entry"
    for line in lines:
        if line == "}":
            break
        if line.endswith(":"):
            label = line[:-1]
            blocks[label] = []
        else:
            blocks.setdefault(label, []).append(_Line(line).instruction())
    return Function(match[1], params, blocks, next(iter(blocks)))


def _global(line: str, module: Module) -> None:
    match = re.match(r"@([\w.]+) = .*?(?:global|constant) (.*?)(?:, align (\d+))?$", line)
    if match is None:
        raise InternalError(f"a global: {line}")
    name, rest, align = match[1], match[2], int(match[3] or 1)
    text = re.search(r'c"(.*)"', rest)
    if text is None:
        data = _Line(rest).value().constant.tobytes()
    else:
        raw = re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), text[1])
        data = raw.encode("latin-1")
    module.globals[name] = data, align


class _Line:
    """The tokens of one instruction."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise InternalError(f"{token!r} is missing in {self.text}")

    def skip(self, token: str) -> bool:
        """Goes over a token, if it comes next."""
        comes = self.peek() == token
        self.at += comes
        return comes

    def flags(self) -> None:
        while self.peek() in _FLAGS:
            self.at += 1

    def type(self) -> Type:
        opening = self.peek()
        if opening not in ("<", "["):
            return Type(self.next())
        self.next()
        count = int(self.next())
        self.expect("x")
        inner = self.type()  # arrays of arrays are one
        self.next()
        return Type(inner.element, count * max(1, inner.lanes))

    def value(self, type: Type | None = None) -> Operand:
        """Reads a value, with its type in front if that is not given."""
        type = self.type() if type is None else type
        token = self.next()
        if token[0] in "%@":
            return Operand(type, token)
        return Operand(type, constant=self._constant(type, token))

    def _constant(self, type: Type, token: str) -> Any:
        dtype, lanes = type.dtype, type.lanes
        if token == "splat":
            self.expect("(")
            one = self.value().constant
            self.expect(")")
            return np.full(lanes, one, dtype)
        if token in ("<", "["):
            parts = [self.value().constant]
            while self.skip(","):
                parts.append(self.value().constant)
            self.next()
            return np.array(parts, dtype).reshape(-1)
        if token in ("zeroinitializer", "null"):
            return np.zeros(lanes, dtype) if lanes else dtype.type(0)
        if token in ("poison", "undef"):
            return any_value(type)
        if token in ("true", "false"):
            return np.bool_(token == "true")
        if token.startswith("0xH"):
            return np.array(int(token[3:], 16), np.uint16).view(np.float16)[()]
        if token.startswith("0x"):
            return dtype.type(struct.unpack(">d", int(token, 16).to_bytes(8, "big"))[0])
        if dtype.kind == "f":
            return dtype.type(float(token))
        if dtype.kind == "b":
            return np.bool_(int(token) & 1)
        bits = 8 * dtype.itemsize
        number = int(token) & ((1 << bits) - 1)
        return dtype.type(number - (1 << bits) if number >> (bits - 1) else number)

    def label(self) -> Operand:
        self.expect("label")
        return Operand(None, self.next()[1:])

    def instruction(self) -> Instruction:
        result = ""
        if self.tokens[1:2] == ["="]:
            result = self.next()
            self.next()
        opcode = self.next()
        self.flags() if opcode not in ("tail", "notail") else None
        if opcode in ("tail", "notail"):
            opcode = self.next()
        reader = _READERS.get(opcode, _Line._same)
        type, operands, more = reader(self)
        return Instruction(opcode, result, type, tuple(operands), more, self.text)

    # -- forms of instructions: type of the result, operands, and what it depends on besides ------

    def _same(self) -> tuple[Type, list[Operand], Any]:
        """``add i32 %a, %b``: operands and result have one type."""
        type = self.type()
        operands = [self.value(type)]
        while self.skip(","):
            operands.append(self.value(type))
        return type, operands, None

    def _compare(self) -> tuple[Type, list[Operand], Any]:
        self.flags()
        predicate = self.next()
        type, operands, _ = self._same()
        return Type("i1", type.lanes), operands, predicate

    def _typed(self) -> tuple[Type | None, list[Operand], Any]:
        """``select <4 x i1> %c, float %a, float %b``: each operand has its type in front."""
        operands = [self.value()]
        while self.skip(",") and not self.peek().startswith("!"):
            operands.append(self.value())
        return operands[-1].type, operands, None

    def _shuffle(self) -> tuple[Type | None, list[Operand], Any]:
        _, operands, _ = self._typed()
        kind, (*_, picks) = operands[0].type, operands
        assert kind is not None
        return Type(kind.element, len(picks.constant)), operands[:2], picks.constant

    def _extract(self) -> tuple[Type | None, list[Operand], Any]:
        _, operands, _ = self._typed()
        assert operands[0].type is not None
        return Type(operands[0].type.element), operands, None

    def _insert(self) -> tuple[Type | None, list[Operand], Any]:
        _, operands, _ = self._typed()
        return operands[0].type, operands, None

    def _cast(self) -> tuple[Type, list[Operand], Any]:
        operand = self.value()
        self.expect("to")
        return self.type(), [operand], None

    def _address(self) -> tuple[Type, list[Operand], Any]:
        element = self.type()
        size = max(1, element.lanes) * element.dtype.itemsize
        operands = []
        while self.skip(","):
            operands.append(self.value())
        return Type("ptr"), operands, size

    def _load(self) -> tuple[Type, list[Operand], Any]:
        type = self.type()
        self.expect(",")
        return type, [self.value()], self._alignment(type)

    def _store(self) -> tuple[None, list[Operand], Any]:
        value = self.value()
        self.expect(",")
        assert value.type is not None
        return None, [value, self.value()], self._alignment(value.type)

    def _alignment(self, type: Type) -> int:
        """Returns the alignment that is promised: without a word, that of the type."""
        if self.skip(",") and self.skip("align"):
            return int(self.next())
        return max(1, type.lanes) * type.dtype.itemsize

    def _alloca(self) -> tuple[Type, list[Operand], Any]:
        element = self.type()
        count = Operand(Type("i64"), constant=np.int64(1))
        if self.skip(",") and self.peek() != "align":
            count = self.value()
        return Type("ptr"), [count], max(1, element.lanes) * element.dtype.itemsize

    def _call(self) -> tuple[Type | None, list[Operand], Any]:
        self.flags()
        type = self.type()
        callee = self.next()
        self.expect("(")
        operands: list[Operand] = []
        while not self.skip(")"):
            kind = self.type()
            if self.skip("align"):
                self.next()
            operands.append(self.value(kind))
            self.skip(",")
        if callee.startswith("%"):
            return type, [Operand(Type("ptr"), callee), *operands], ""
        return (None if type.element == "void" else type), operands, callee[1:]

    def _phi(self) -> tuple[Type, list[Operand], Any]:
        type = self.type()
        values: list[Operand] = []
        labels: list[str] = []
        while True:
            self.expect("[")
            values.append(self.value(type))
            self.expect(",")
            labels.append(self.next()[1:])
            self.expect("]")
            if not self.skip(","):
                return type, values, tuple(labels)

    def _branch(self) -> tuple[None, list[Operand], Any]:
        if self.peek() == "label":
            return None, [], (self.label().name,)
        condition = self.value()
        self.expect(",")
        then = self.label().name
        self.expect(",")
        return None, [condition], (then, self.label().name)

    def _return(self) -> tuple[None, list[Operand], Any]:
        return None, [] if self.skip("void") else [self.value()], None

    def _nothing(self) -> tuple[None, list[Operand], Any]:
        return None, [], None


def any_value(type: Type) -> Any:
    """Returns what poison is here: a value that no sum hides, and no index or address survives."""
    size = type.dtype.itemsize
    bits = np.full(max(1, type.lanes) * size, 1 if type.element == "i1" else _POISON_BYTE, np.uint8)
    return bits.view(type.dtype) if type.lanes else bits.view(type.dtype)[0]


_POISON_BYTE = 0x5A
"""Each byte of a value that is poison."""

_CASTS = (
    *("zext", "sext", "trunc", "bitcast", "fpext", "fptrunc"),
    *("fptosi", "fptoui", "sitofp", "uitofp", "ptrtoint", "inttoptr"),
)
_READERS = {
    "icmp": _Line._compare,
    "fcmp": _Line._compare,
    "select": _Line._typed,
    "shufflevector": _Line._shuffle,
    "extractelement": _Line._extract,
    "insertelement": _Line._insert,
    **dict.fromkeys(_CASTS, _Line._cast),
    "getelementptr": _Line._address,
    "load": _Line._load,
    "store": _Line._store,
    "alloca": _Line._alloca,
    "call": _Line._call,
    "phi": _Line._phi,
    "br": _Line._branch,
    "ret": _Line._return,
    "fence": _Line._nothing,
    "unreachable": _Line._nothing,
}
