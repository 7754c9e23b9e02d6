"""WebAssembly: a relocatable object becomes a module that engines run, without a linker.

LLVM's object imports its memory, its table of functions and its stack pointer, and its data begin
at address 0. In the module these are its own. Functions keep their numbers, so that code changes
only where it holds addresses of data. The module imports nothing but the libm functions that the
object refers to (``env``), and exports ``memory``, the functions, and ``__heap_base``, from where
on memory is the caller's::

    0 .. WASM_STACK    the stack, which grows down: one that is too deep traps
    .. __heap_base      the data of the object

The format is that of the WebAssembly specification, chapter 5, and of objects that of "WebAssembly
Object File Linking" in the repository tool-conventions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...ir.errors import InternalError
from ..target import Target

WASM_STACK = 8 << 20
"""Bytes of the stack: kernels hold tiles there, and recursive functions use up to 4 MiB."""
PAGE, HEAP_ALIGN = 1 << 16, 1 << 12

# Sections; kinds of imports and exports; instructions of constants.
_CUSTOM, _TYPES, _IMPORTS, _FUNCTIONS, _TABLES, _MEMORIES, _GLOBALS, _EXPORTS = range(8)
_ELEMENTS, _CODE, _DATA, _DATA_COUNT = 9, 10, 11, 12
_FUNCTION, _TABLE, _MEMORY, _GLOBAL = range(4)
_I32, _I32_CONST, _END = b"\x7f", b"\x41", b"\x0b"
_CONSTANT, _MUTABLE, _FUNCTIONS_ONLY = b"\0", b"\1", b"\x70\0"

# Relocations: of addresses as LEB128, signed LEB128 and 32 bits, and those that change nothing.
_ADDRESS_LEB, _ADDRESS_SLEB, _ADDRESS_I32 = 3, 4, 5
_SAME = frozenset({0, 1, 2, 6, 7, 20})
_SYMBOL_TABLE, _DATA_SYMBOL, _SECTION_SYMBOL, _UNDEFINED, _NAMED = 8, 1, 3, 0x10, 0x40


Sections = dict[int | str, bytes]
"""Contents by number, of custom sections by name."""


class _Bytes:
    """Reads numbers, names and vectors from bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unsigned(self) -> int:
        """A number in LEB128."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self.at += count
        return self.data[self.at - count : self.at]

    def block(self) -> bytes:
        """Bytes with their number in front of them."""
        return self.take(self.unsigned())


def _leb(value: int) -> bytes:
    """A number below 2**31 in LEB128, signed or not, of five bytes as in objects."""
    return bytes([*(value >> shift & 127 | 128 for shift in (0, 7, 14, 21)), value >> 28])


def _block(data: bytes) -> bytes:
    return _leb(len(data)) + data


def _vector(items: Collection[bytes]) -> bytes:
    return _leb(len(items)) + b"".join(items)


def _sections(code: bytes) -> Sections:
    """The sections of an object."""
    read, sections = _Bytes(code), Sections()
    read.take(8)
    while read.at < len(code):
        kind, content = read.take(1)[0], _Bytes(read.block())
        key = content.block().decode() if kind == _CUSTOM else kind
        sections[key] = content.data[content.at :]
    return sections


def _imports(sections: Sections, wanted: int) -> Iterator[tuple[bytes, bytes]]:
    """The imports of a kind: names, and the bytes that describe them."""
    read = _Bytes(sections.get(_IMPORTS, b"\0"))
    for _ in range(read.unsigned()):
        _, name, kind = read.block(), read.block(), read.take(1)[0]
        begin = read.at
        if kind == _FUNCTION:
            read.unsigned()
        elif kind == _GLOBAL:
            read.take(2)
        else:  # of tables a type, then the least size, and the most if bit 0 is set
            read.take(kind == _TABLE)
            for _ in range(1 + (read.unsigned() & 1)):
                read.unsigned()
        if kind == wanted:
            yield name, read.data[begin : read.at]


def _defined(sections: Sections) -> dict[str, int]:
    """The numbers of the functions that it defines."""
    read, numbers = _Bytes(sections["linking"]), dict[str, int]()
    read.unsigned()  # the version
    while read.at < len(read.data):
        kind, table = read.take(1)[0], _Bytes(read.block())
        for _ in range(table.unsigned() if kind == _SYMBOL_TABLE else 0):
            sort, flags = table.take(1)[0], table.unsigned()
            here = not flags & _UNDEFINED
            if sort == _DATA_SYMBOL:
                table.block()
                for _ in range(3 * here):
                    table.unsigned()
                continue
            index = table.unsigned()
            name = table.block() if sort != _SECTION_SYMBOL and (here or flags & _NAMED) else b""
            if sort == _FUNCTION and here:
                numbers[name.decode()] = index
    return numbers


def _moved(sections: Sections, section: int, name: str) -> bytes:
    """A section whose addresses of data are larger by the bytes of the stack."""
    data = bytearray(sections.get(section, b"\0"))
    read = _Bytes(sections.get(name, b"\0\0"))
    read.unsigned()  # the number of the section
    for _ in range(read.unsigned()):
        kind, at, _ = read.take(1)[0], read.unsigned(), read.unsigned()
        if kind in _SAME:
            continue
        if kind not in (_ADDRESS_LEB, _ADDRESS_SLEB, _ADDRESS_I32):
            raise InternalError(f"relocation {kind} of WebAssembly is not known")
        read.unsigned()  # the addend, which is in the section as well; its length counts
        if kind == _ADDRESS_I32:
            address = int.from_bytes(data[at : at + 4], "little") + WASM_STACK
            data[at : at + 4] = (address % (1 << 32)).to_bytes(4, "little")
        else:
            address = _Bytes(bytes(data[at : at + 5])).unsigned() + WASM_STACK
            data[at : at + 5] = _leb(address % (1 << 32))
    return bytes(data)


def is_wasm(target: Target) -> bool:
    """True if objects for a target are those of WebAssembly."""
    return target.system_row.object_format == "wasm"


def undefined_functions(code: bytes) -> list[str]:
    """Returns the names of functions that an object refers to and does not define, sorted."""
    return sorted(name.decode() for name, _ in _imports(_sections(code), _FUNCTION))


def _segments(section: bytes) -> tuple[list[bytes], int]:
    """The segments of data that are not zeros, which memory is anyway, and where the last ends."""
    read, kept, end = _Bytes(section), list[bytes](), 0
    for _ in range(read.unsigned()):
        read.take(2)  # of memory 0, at the constant
        offset = read.unsigned() + WASM_STACK
        read.take(1)
        content = read.block()
        end = max(end, offset + len(content))
        if content.strip(b"\0"):
            kept.append(b"\0" + _I32_CONST + _leb(offset) + _END + _block(content))
    return kept, max(end, WASM_STACK)


def wasm_module(code: bytes, public: Collection[str]) -> bytes:
    """Returns the module of an object, which exports ``public`` functions."""
    sections = _sections(code)
    defined = _defined(sections)
    segments, end = _segments(_moved(sections, _DATA, "reloc.DATA"))
    heap = -(-end // HEAP_ALIGN) * HEAP_ALIGN
    functions = [
        _block(b"env") + _block(name) + bytes([_FUNCTION]) + type
        for name, type in _imports(sections, _FUNCTION)
    ]
    # An object counts the functions in its table, which begin behind the null address.
    sizes = [_Bytes(type[2:]).unsigned() + 1 for _, type in _imports(sections, _TABLE)]
    tables = [_FUNCTIONS_ONLY + _leb(size) for size in sizes]
    exports = [(name, _FUNCTION, defined[name]) for name in sorted(public)]
    exports += [("memory", _MEMORY, 0), ("__heap_base", _GLOBAL, 1)]
    numbers = [(_MUTABLE, WASM_STACK), (_CONSTANT, heap)]
    sections |= {
        _IMPORTS: _vector(functions),
        _TABLES: _vector(tables),
        _MEMORIES: _vector([b"\0" + _leb(-(-heap // PAGE))]),
        _GLOBALS: _vector([_I32 + m + _I32_CONST + _leb(n) + _END for m, n in numbers]),
        _EXPORTS: _vector([_block(n.encode()) + bytes([k]) + _leb(i) for n, k, i in exports]),
        _DATA_COUNT: _leb(len(segments)),
        _CODE: _moved(sections, _CODE, "reloc.CODE"),
        _DATA: _vector(segments),
    }
    order = [*range(_TYPES, _ELEMENTS + 1), _DATA_COUNT, _CODE, _DATA]
    parts = [bytes([kind]) + _block(sections[kind]) for kind in order if kind in sections]
    return b"".join([code[:8], *parts])
