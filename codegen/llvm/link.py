"""Loads ELF objects into this process: the few kinds of sections and relocations LLVM makes here.

All sections of an object lie in one block of memory, so that the 32-bit offsets between them always
fit. (LLVM's own loader asks the system for memory section by section; where the address space is
crowded they come to lie more than 2 GiB apart, and it aborts the process.)

The numbers are those of the System V ABI, AMD64 supplement, chapters 4.3 and 4.4.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...ir.dataclass import dataclass
from ..target import allow_tiles

_WRITE, _ALLOC, _EXECUTE = 1, 2, 4  # flags of sections
_SYMBOLS, _ADDENDS, _ZEROS = 2, 4, 8  # types of sections
_ABS64, _PC32, _PLT32 = 1, 2, 4  # types of relocations
_GOT_SLOTS = frozenset({9, 41, 42})  # GOTPCREL, GOTPCRELX and REX_GOTPCRELX
_NOWHERE, _ABSOLUTE = 0, 0xFFF1  # what a symbol's section may be instead of a section

_JUMP = b"\xff\x25\x00\x00\x00\x00"  # jmp *(%rip): to the address that follows
_STUB = 16  # bytes of a jump and its address
_SLOT = 8  # bytes of an address in the global offset table


@dataclass(slots=True)
class _Section:
    """A section as its header describes it; ``at`` is where it lies in the block."""

    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    at: int = 0

    @property
    def is_loaded(self) -> bool:
        # Nothing unwinds generated code, so that the tables for it may be left out.
        return bool(self.flags & _ALLOC) and self.name != ".eh_frame"


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Part:
    """Pages of linked code from ``begin`` to ``end``, and their ``mmap.PROT_`` flags."""

    begin: int
    end: int
    protection: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Object code linked for one place in memory: its bytes, and its symbols' addresses."""

    image: bytearray
    addresses: Mapping[str, int]
    parts: tuple[Part, ...]


class LoadedObject:
    """Object code linked into the process; it stays mapped as long as this lives.

    ``symbols`` are addresses that the code may refer to; other names are looked up in the process.
    Raises KeyError for a name that is nowhere, ValueError for code that cannot be linked.
    """

    def __init__(self, code: bytes, symbols: Mapping[str, int] | None = None) -> None:
        allow_tiles()  # the code may use them
        given_symbols = symbols or {}

        def address_of(name: str) -> int:
            given = given_symbols.get(name)
            return _in_process(name) if given is None else given

        linker = _Linker(code, address_of)
        base, size = _map(linker.size), linker.size
        try:
            placed = linker.placed(base)
        except BaseException:
            _unmap(base, size)
            raise
        ctypes.memmove(base, (ctypes.c_char * size).from_buffer(placed.image), size)
        for part in placed.parts:
            _protect(base + part.begin, part.end - part.begin, part.protection)
        self._addresses = placed.addresses
        # Not at exit: results that outlive the interpreter's modules return their memory by code.
        weakref.finalize(self, _unmap, base, size).atexit = False

    def address(self, symbol: str) -> int:
        """The address of a symbol; KeyError if the object has none of that name."""
        return self._addresses[symbol]

    def function(self, symbol: str, *argtypes: object, restype: object = None) -> Any:
        """A ctypes callable; it keeps this object alive."""
        made = ctypes.CFUNCTYPE(restype, *argtypes)(self.address(symbol))  # type: ignore[arg-type]
        made.owner = self  # type: ignore[attr-defined]
        return made


def load_object(code: bytes, symbols: Mapping[str, int] | None = None) -> LoadedObject:
    """Link object code into this process; ``symbols`` are addresses it may refer to."""
    return LoadedObject(code, symbols)


def place_object(code: bytes, base: int, symbols: Mapping[str, int]) -> Placed:
    """Link object code for the address ``base``, a multiple of the page size, in another process.
    KeyError for a name that is not among ``symbols``, ValueError for code that cannot be linked."""
    return _Linker(code, symbols.__getitem__).placed(base)


class _Linker:
    """Lays out the sections of one object, and relocates them for a base address."""

    def __init__(self, code: bytes, address_of: Callable[[str], int]) -> None:
        self.code = code
        self.address_of = address_of
        self.sections = _sections(code)
        self.symbols = self._symbols()
        outside = sum(s.section == _NOWHERE for s in self.symbols)
        # Pages of one protection each: code and stubs; constants and the offset table; data.
        self.stubs = self._place(_EXECUTE, 0)
        self.constants = _page_end(self.stubs + _STUB * outside)
        self.slots = self._place(0, self.constants)
        self.data = _page_end(self.slots + _SLOT * outside)
        self.size = _page_end(self._place(_WRITE, self.data) + 1)

    def placed(self, base: int) -> Placed:
        self.base = base
        self.image = bytearray(self.size)
        self.targets: dict[tuple[str, bool], int] = {}
        self._fill()
        addresses = {s.name: self._address(s) for s in self.symbols if self._is_here(s)}
        read, write = mmap.PROT_READ, mmap.PROT_WRITE
        parts = (
            Part(0, self.constants, read | mmap.PROT_EXEC),
            Part(self.constants, self.data, read),
            Part(self.data, self.size, read | write),
        )
        return Placed(self.image, addresses, tuple(p for p in parts if p.end > p.begin))

    def _symbols(self) -> list[_Symbol]:
        symbols: list[_Symbol] = []
        for table in self.sections:
            if table.type == _SYMBOLS:
                names = self.sections[table.link].offset
                rows = self.code[table.offset : table.offset + table.size]
                for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", rows):
                    symbols.append(_Symbol(_text(self.code, names + name), section, value))
        return symbols

    def _place(self, kind: int, start: int) -> int:
        """Give the loaded sections of one protection their places; where they end."""
        for section in self.sections:
            if section.is_loaded and section.flags & (_WRITE | _EXECUTE) == kind:
                section.at = -(-start // section.align) * section.align
                start = section.at + section.size
        return -(-start // _STUB) * _STUB

    def _fill(self) -> None:
        for section in self.sections:
            if section.is_loaded and section.type != _ZEROS:
                content = self.code[section.offset : section.offset + section.size]
                self.image[section.at : section.at + section.size] = content
        for table in self.sections:
            if table.type == _ADDENDS and self.sections[table.info].is_loaded:
                rows = self.code[table.offset : table.offset + table.size]
                for offset, info, addend in struct.iter_unpack("<QQq", rows):
                    symbol = self.symbols[info >> 32]
                    place = self.sections[table.info].at + offset
                    self._relocate(place, info & 0xFFFFFFFF, symbol, addend)

    def _relocate(self, place: int, kind: int, symbol: _Symbol, addend: int) -> None:
        if kind == _ABS64:
            struct.pack_into("<Q", self.image, place, self._address(symbol) + addend)
            return
        if kind in _GOT_SLOTS:
            target = self._slot(symbol)
        elif kind == _PLT32 and symbol.section == _NOWHERE:
            target = self._stub(symbol)
        elif kind in (_PC32, _PLT32):
            target = self._address(symbol)
        else:
            raise ValueError(f"relocation {kind} of {symbol.name} is not known")
        try:
            struct.pack_into("<i", self.image, place, target + addend - (self.base + place))
        except struct.error:
            raise ValueError(f"{symbol.name} is out of reach") from None

    def _slot(self, symbol: _Symbol) -> int:
        """The place in the offset table that holds a symbol's address."""
        return self._once(symbol, False, b"", self.slots, _SLOT)

    def _stub(self, symbol: _Symbol) -> int:
        """A jump to a symbol that may be anywhere."""
        return self._once(symbol, True, _JUMP, self.stubs, _STUB)

    def _once(self, symbol: _Symbol, jump: bool, head: bytes, start: int, size: int) -> int:
        target = self.targets.get((symbol.name, jump))
        if target is None:
            place = start + size * sum(j is jump for _, j in self.targets)
            content = head + struct.pack("<Q", self._address(symbol))
            self.image[place : place + len(content)] = content
            target = self.targets[symbol.name, jump] = self.base + place
        return target

    def _is_here(self, symbol: _Symbol) -> bool:
        return bool(symbol.name) and 0 < symbol.section < len(self.sections)

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section == _NOWHERE:
            return self.address_of(symbol.name)
        if symbol.section == _ABSOLUTE:
            return symbol.value
        return self.base + self.sections[symbol.section].at + symbol.value


def _sections(code: bytes) -> list[_Section]:
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    (start,) = struct.unpack_from("<Q", code, 40)
    count, names = struct.unpack_from("<HH", code, 60)
    sections: list[_Section] = []
    places: list[int] = []
    rows: Iterable[Any] = struct.iter_unpack("<IIQQQQIIQQ", code[start : start + 64 * count])
    for name, type, flags, _, offset, size, link, info, align, _ in rows:
        sections.append(_Section("", type, flags, offset, size, link, info, max(1, align)))
        places.append(name)
    for section, place in zip(sections, places):
        section.name = _text(code, sections[names].offset + place)
    return sections


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


def _page_end(offset: int) -> int:
    return -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE


@functools.cache
def _process() -> ctypes.CDLL:
    """This process with all libraries that are loaded for everybody."""
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _in_process(name: str) -> int:
    try:
        address = ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
    except AttributeError:
        address = None
    if address is None:
        raise KeyError(name)
    return address


def _map(size: int) -> int:
    call = _process().mmap
    call.restype = ctypes.c_void_p
    mode = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    made = call(None, ctypes.c_size_t(size), protection, mode, -1, ctypes.c_size_t(0))
    if made in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no {size} bytes for code")
    return made


def _unmap(address: int, size: int) -> None:
    _process().munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))


def _protect(address: int, size: int, protection: int) -> None:
    arguments = ctypes.c_void_p(address), ctypes.c_size_t(size), protection
    if size and _process().mprotect(*arguments):
        raise OSError(ctypes.get_errno(), "the memory of code cannot be protected")
