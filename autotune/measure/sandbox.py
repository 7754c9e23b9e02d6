"""this process     a file: code, operands, operations  ->  starts the program, and waits
    the program                                              maps, calls, compares, copies out

The program (``sandbox_text.py``) is a few kilobytes of native code. All its memory are the rooms
that a job lays out, far apart, so that a wrong access beside them is a memory fault. Only reports
come back, and a timer ends endless loops. It is started like ``posix_spawn`` does, which copies
nothing; ``os.wait`` of the user's program does not see it, and its end sends no signal.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
import signal
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.llvm.link import LoadedObject, Placed, load_object, place_object
from ...codegen.llvm.store import stored_object
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from .guarded import FAULT, FAULTS
from .sandbox_text import OPERATIONS, SHARED, sandbox_text

_PAGE = mmap.PAGESIZE
_HUGE = 1 << 21
_PROGRAM = 0x40_0000
_CODE = 0x1_0000_0000
_ROOMS = 0x100_0000_0000
_ROOM_GAP = 1 << 24
"""Unmapped bytes between rooms."""
_CLOCK_FACTOR = 20
"""Limit on the clock over the limit in processor time: the machine may be busy."""
_MMAP, _MPROTECT, _MUNMAP, _MADVISE, _SETITIMER = 9, 10, 11, 28, 38
_PREAD, _PWRITE, _PREADV, _PWRITEV = 17, 18, 295, 296
"""Numbers of system calls. The file is their descriptor 0."""
_MOST_VECTORS = 1024
"""Pieces of memory that one system call moves (IOV_MAX)."""
_ADVISE_HUGE = 14
_FIXED = 0x10_0000  # MAP_FIXED_NOREPLACE
_MFD_CLOEXEC, _MFD_EXEC = 1, 0x10
_WALL = 0x4000_0000  # children that send no signal, too


@dataclass(frozen=True, slots=True)
class Room:
    """``size`` bytes at ``address``, in pages from ``first`` to ``last``. They end as close to the
    end of a page as their alignment allows, and nothing is mapped next to the pages."""

    name: str
    size: int
    address: int
    first: int
    last: int

    @property
    def beside(self) -> list[tuple[int, int]]:
        """Begins and size of the rest of its pages, before and after it."""
        end = self.address + self.size
        rests = ((self.first, self.address - self.first), (end, self.last - end))
        return [(begin, size) for begin, size in rests if size > 0]


@dataclass(frozen=True, slots=True)
class Report:
    """``size`` bytes at ``begin`` of the file, which the program writes."""

    begin: int
    size: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: ``done`` counts operations from the first, ``false`` are those whose
    answer is no, and ``died`` is the reason why the program ended before the last one ("" if it did
    not)."""

    done: int
    false: tuple[int, ...]
    died: str = ""


class Job:
    """Operations for the program, and the memory that they use. Raises OSError, or KeyError in
    ``code``. A job is run once: ``start``, ``wait``, ``read``, ``close``."""

    def __init__(self) -> None:
        self._file = os.memfd_create("job", _MFD_CLOEXEC)
        self._size = 64  # it begins with three words: count of operations, and two offsets
        self._rooms, self._code = _ROOMS, _CODE
        self._ops: list[tuple[int, ...]] = []
        self._pid = self._status = 0
        self._stack = (ctypes.c_int64 * 512)()

    # -- memory

    def put(self, data: Any) -> int:
        """Returns the address of a copy of an array."""
        begin = self.report(data.nbytes).begin
        os.pwrite(self._file, data, begin)
        return SHARED + begin

    def report(self, size: int) -> Report:
        """Returns memory for a report of the program."""
        begin = self._size
        self._size += -(-size // 64) * 64
        return Report(begin, size)

    def pages(self, data: Any) -> int:
        """Returns the offset in the file of a copy of ``data`` that has pages of its own."""
        self._size = begin = -(-self._size // _PAGE) * _PAGE
        self._size += -(-data.nbytes // _PAGE) * _PAGE
        os.pwrite(self._file, data, begin)
        return begin

    def room(self, name: str, size: int, alignment: int = 64) -> Room:
        """Returns a room; nothing is mapped there yet."""
        pages = -(-max(size, 1) // _PAGE) * _PAGE
        unit = _HUGE if pages >= _HUGE else _PAGE
        first = -(-self._rooms // unit) * unit
        last = first + pages
        self._rooms = last + _ROOM_GAP
        return Room(name, size, (last - size) // alignment * alignment, first, last)

    # -- operations; those with an answer return their number

    def zeros(self, room: Room) -> None:
        """Maps a room, filled with zeros."""
        mode = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED
        self._map(room.first, room.last - room.first, _READ_WRITE, mode, -1, 0)
        if room.last - room.first >= _HUGE:
            self._system(_MADVISE, room.first, room.last - room.first, _ADVISE_HUGE)

    def repeat(self, room: Room, pages: int, size: int, begin: int = 0) -> None:
        """Maps a room to ``size`` bytes of the file, whole pages, repeated, the first time from
        ``begin`` on. It is writable until ``protect``."""
        at = room.first
        while at < room.last:
            length = min(size - begin, room.last - at)
            self._map(at, length, _READ_WRITE, mmap.MAP_PRIVATE | _FIXED, 0, pages + begin)
            at, begin = at + length, 0

    def protect(self, room: Room) -> None:
        """Makes a room read-only."""
        self._system(_MPROTECT, room.first, room.last - room.first, mmap.PROT_READ)

    def unmap(self, room: Room) -> None:
        """Unmaps a room."""
        self._system(_MUNMAP, room.first, room.last - room.first)

    def code(self, code: bytes) -> Mapping[str, int]:
        """Maps object code and returns the addresses of its symbols.

        It may call functions that LLVM relies on, and parallel loops, whose iterations run
        backwards. Raises KeyError for any other external name.
        """
        placed = place_object(code, self._code, _program().symbols)
        pages = self.pages(memoryview(placed.image))
        for part in placed.parts:
            at, length = self._code + part.begin, part.end - part.begin
            mode = mmap.MAP_PRIVATE | _FIXED
            self._map(at, length, part.protection, mode, 0, pages + part.begin)
        self._code += len(placed.image) + _PAGE
        return placed.addresses

    def fill(self, address: int, size: int, byte: int) -> None:
        """Sets bytes."""
        self._do("fill", address, size, byte)

    def call(self, function: int, arguments: int) -> None:
        """Calls ``void function(ptr arguments)`` with garbage in the registers and on the stack."""
        self._do("invoke", function, arguments)

    def load(self, address: int, data: Any) -> None:
        """Copies an array to an address."""
        self._system(_PREAD, 0, address, data.nbytes, self.put(data) - SHARED)

    def copy(self, to: Report, source: int) -> None:
        """Copies bytes into a report."""
        self._system(_PWRITE, 0, source, to.size, to.begin)

    def gather(self, to: Report, addresses: npt.NDArray[np.int64], width: int) -> None:
        """Copies pieces of ``width`` bytes at int64 addresses into a report."""
        self._move(_PWRITEV, addresses, width, to.begin)

    def clear(self, addresses: npt.NDArray[np.int64], width: int) -> None:
        """Sets pieces of ``width`` bytes at int64 addresses to zero."""
        self._move(_PREADV, addresses, width, self.report(_MOST_VECTORS * width).begin, step=0)

    def _move(
        self, call: int, addresses: npt.NDArray[np.int64], width: int, begin: int, step: int = 1
    ) -> None:
        """Copies pieces of memory to or from the file, one after the other; with a ``step`` of 0,
        each system call from the same bytes."""
        pieces = np.stack([addresses, np.full_like(addresses, width)], axis=1)
        for n in range(0, len(pieces), _MOST_VECTORS):
            part = np.ascontiguousarray(pieces[n : n + _MOST_VECTORS])
            self._system(call, 0, self.put(part), len(part), begin + step * n * width)

    def written(self, room: Room, width: int) -> int:
        """Asks whether no element of a room, of 4 or 8 bytes, is garbage."""
        return self._do(f"written{width}", room.address, room.size)

    def choose(self, iterations: npt.NDArray[np.int64], before: int) -> None:
        """Runs only these iterations of the parallel loop after ``before`` others; all of them if
        there are none."""
        chosen = np.array([self.put(iterations), iterations.size, before], np.int64)
        self.load(_program().symbols["lw_chosen"], chosen)

    def limit(self, seconds: float) -> None:
        """Limits the processor time from here on, up to the next limit."""
        timers = np.zeros((2, 4), np.int64)  # of itimerval: seconds and microseconds, once
        for timer, limit in zip(timers, (seconds, _CLOCK_FACTOR * seconds), strict=True):
            timer[2:] = int(limit), max(1, int(1e6 * (limit % 1)))
        for which, timer in zip((signal.ITIMER_PROF, signal.ITIMER_REAL), timers, strict=True):
            self._system(_SETITIMER, which, self.put(timer), 0)

    @property
    def length(self) -> int:
        """The number of operations."""
        return len(self._ops)

    def _map(self, at: int, size: int, protection: int, mode: int, file: int, begin: int) -> None:
        self._system(_MMAP, at, size, protection, mode, file, begin)

    def _system(self, call: int, *words: int) -> None:
        self._do("call_system", call, *words)

    def _do(self, name: str, *words: int) -> int:
        self._ops.append((_NUMBERS[name], *words, *(0,) * (7 - len(words))))
        return len(self._ops) - 1

    # -- the run

    def start(self) -> None:
        """Starts the program."""
        ops = self.put(np.array(self._ops, np.int64)) - SHARED
        self._status = self.report(8 * len(self._ops)).begin
        os.pwrite(self._file, struct.pack("<3q", len(self._ops), ops, self._status), 0)
        os.ftruncate(self._file, self._size)
        program = _program()
        self._pid = program.spawn(
            program.file,
            self._file,
            ctypes.addressof(program.arguments),
            ctypes.addressof(self._stack) + ctypes.sizeof(self._stack),
        )
        if self._pid < 0:
            raise OSError("the system starts no process")

    def wait(self) -> Outcome:
        """Waits for the end of the program and returns the outcome."""
        pid, self._pid = self._pid, 0
        _, ended = os.waitpid(pid, _WALL)
        answers = np.frombuffer(os.pread(self._file, 8 * len(self._ops), self._status), np.int64)
        if not len(answers) or answers[0] == 0 or (answers == 3).any():
            raise OSError("the system does not run a process to try it in")
        count = len(answers)
        done = int(np.argmin(answers != 0)) if (answers == 0).any() else count
        died = "" if done == count else _cause(abs(os.waitstatus_to_exitcode(ended)))
        return Outcome(done, tuple(np.flatnonzero(answers == 2).tolist()), died)

    def read(self, report: Report) -> npt.NDArray[np.uint8]:
        """Returns the bytes of a report."""
        return np.frombuffer(os.pread(self._file, report.size, report.begin), np.uint8)

    def close(self) -> None:
        """Ends the program if it still runs, and releases all memory."""
        if self._pid > 0:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, _WALL)
        os.close(self._file)


def _cause(number: int) -> str:
    if number in (signal.SIGPROF, signal.SIGALRM):
        return "it took too long"
    if number in FAULTS:
        return FAULT
    return f"it ended by {signal.Signals(number).name}" if number else "it ended the process"


@dataclass(frozen=True, slots=True)
class _Program:
    """The program in a file, the function that starts it, and the functions that code may call in
    it."""

    file: int
    spawn: Any
    arguments: Any
    symbols: Mapping[str, int]
    code: LoadedObject


@functools.cache
def _program() -> _Program:
    target = Target.host()
    code = stored_object(sandbox_text(target), target, "sandbox of first calls")
    placed = place_object(code, _PROGRAM + _PAGE, {})
    loaded = load_object(code)
    long = ctypes.c_int64
    spawn = loaded.function("lw_spawn", long, long, long, long, restype=long)
    arguments = (ctypes.c_char_p * 2)(b"loopwright-first-use", None)
    return _Program(_executable(placed), spawn, arguments, placed.addresses, loaded)


def _executable(placed: Placed) -> int:
    """Returns a file in memory: an ELF executable. Its descriptor is not that of a standard
    stream."""
    count = len(placed.parts)
    begin = _PROGRAM + _PAGE
    entry = placed.addresses["lw_start"]
    head = struct.pack("<4s12B", b"\x7fELF", 2, 1, 1, *[0] * 9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, entry, 64, 0, 0, 64, 56, count, 64, 0, 0)
    for part in placed.parts:
        flags = {mmap.PROT_READ: 4, mmap.PROT_WRITE: 2, mmap.PROT_EXEC: 1}
        word = sum(flag for bit, flag in flags.items() if part.protection & bit)
        size, at = part.end - part.begin, begin + part.begin
        head += struct.pack("<IIQQQQQQ", 1, word, _PAGE + part.begin, at, at, size, size, _PAGE)
    try:
        file = os.memfd_create("loopwright-first-use", _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:  # before Linux 6.3 every such file could be executed
        file = os.memfd_create("loopwright-first-use", _MFD_CLOEXEC)
    try:
        os.write(file, head.ljust(_PAGE, b"\0") + placed.image)
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)


_NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
