"""A compiled program as one file: machine code and constants, ready to be linked and mapped, and
what they were compiled from.

::

    b"LWPROG5\\n"   length of the head   SHA-256 of the head
    head           JSON: the program's interface, its target, its source, a row per section; blanks
                   up to a page
    sections       object code of the entry and of each kernel, then the constants, then those of
                   the source that are no constants of the program

A row has the bytes of its section, the bytes up to the next one (zeros behind the section), and the
digest of all of these. Constants begin where kernels want them, so that the file is mapped, and
read in place. Every byte is covered by a hash, and every size is held against that of the file
before anything is allocated. The hashes find damage; they say nothing about who wrote the file, and
its machine code is run: load files of people you trust only. The source is data: ``load_source``
reads nothing else, of anybody's file. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, Symbol, as_int, substitute, symbols
from ..ir.dims_parser import parse_dim
from ..ir.dtype import Array, dtype_of
from ..ir.errors import LoopwrightValueError
from ..ir.files import MOST_FILE_BYTES, map_named, read_named, replace_file
from ..ir.program.analysis import largest
from ..ir.program.nodes import Program
from ..ir.size_table import SizeCheck, SizeTable
from .digest import Digest
from .entry import ENTRY, arena_bytes
from .library_calls import LibraryCall, library_calls, linked_sites
from .llvm.link import load_object
from .module_text import KernelText
from .objects import object_code
from .parallel_map import parallel_map
from .program import called_symbols, program_entry
from .runtime import pool, status
from .runtime.buffers import ArraySpec, HugePages
from .runtime.call_text import IN_PAGE, PAGED_BYTES
from .runtime.executable import Executable
from .size_text import SIZES
from .target import FEATURES, ISA_LEVELS, Target

MAGIC = b"LWPROG5\n"
START = len(MAGIC) + 8 + 32
"""Bytes before the head."""
PAGE = 4096
CACHE_LINE = 64
PIECE_BYTES = 1 << 18
"""Bytes that a thread copies and then hashes at a time: they are in the cache still."""
LONGEST_HEAD = 1 << 26
"""Bytes; a program of 100,000 kernel calls has a head of a quarter of that."""


@dataclass(frozen=True, slots=True)
class SavedProgram:
    """A program from a file, linked. ``extra`` is what its writer wrote besides."""

    executable: Executable
    target: Target
    text: str
    extra: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a program: the text of a module, its arrays, and the schedules of
    kernels by their names, as JSON has them."""

    text: str
    constants: Mapping[str, Array]
    schedules: Mapping[str, Any]


class FileSizes:
    """The symbolic sizes of a program, and numbers and expressions in them as a file has them."""

    def __init__(self, rows: Sequence[Any] = ()) -> None:
        self.symbols = tuple(Symbol(str(n), _size(low), _size(high)) for n, low, high in rows)
        self.exprs = {s.name: s.expr for s in self.symbols}

    def value(self, written: Any) -> IntExpr:
        """The number or expression; raises ValueError or ParseError if it is none."""
        if not isinstance(written, str):
            return _size(written)
        expr = parse_dim(written)
        if not symbols(expr) <= self.exprs.keys():
            raise ValueError(f"{written!r} is not a size")
        return substitute(expr, self.exprs)

    def table(
        self,
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        arena: IntExpr,
        head: Mapping[str, Any],
    ) -> SizeTable | None:
        """Returns how arguments determine the sizes, None if there are none."""
        checks = tuple(
            SizeCheck(self.value(left), str(relation), self.value(right), str(message))
            for left, relation, right, message in head.get("checks", ())
        )
        if not self.symbols:
            return None
        shapes, results = (tuple(s.shape for s in specs) for specs in (inputs, outputs))
        counts = (*(spec.nbytes for spec in (*inputs, *outputs)), arena)
        return SizeTable(self.symbols, shapes, results, checks, counts)


def save_program(
    path: Path,
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None,
    extra: Mapping[str, Any],
    source: Source | None = None,
) -> None:
    """Writes a program with its object code; ``extra`` is more for its head, as JSON has it.

    The file is whole or not there at all. Raises OSError if it cannot be written.
    """
    called = called_symbols(program, kernels)
    by_symbol = {symbol: kernels[name] for name, symbol in called.items()}
    codes = [object_code(program_entry(program, kernels), target)]
    codes += [object_code(kernel.code, target) for kernel in by_symbol.values()]
    constants = [c.value for c in program.constants if c.value is not None]
    contents = [*map(_bytes, codes), *(_bytes(np.ascontiguousarray(c)) for c in constants)]
    written = None if source is None else _written_source(source, contents)
    spaces, zeros = _layout([len(content) for content in contents])
    head = {
        "target": {"isa": target.isa, "features": sorted(target.features)},
        "threads": threads,
        "arena": written_size(arena_bytes(program)),
        "sizes": [[s.name, s.low, s.high] for s in program.sizes],
        "checks": [
            [written_size(c.left), c.relation, written_size(c.right), c.message]
            for c in program.checks
        ],
        "inputs": [[r.dtype.name, [*map(written_size, r.shape)]] for r in program.inputs],
        "outputs": [
            [r.dtype.name, [*map(written_size, r.shape)]] for r in largest(program, program.outputs)
        ],
        "constants": [[c.region.dtype.name, list(c.region.shape)] for c in program.constants],
        "libraries": [
            [symbol, c.function, c.options, [_operand(*o) for o in c.operands], c.place]
            for symbol, c in library_calls(program).items()
        ],
        "kernels": [[symbol, kernel.name] for symbol, kernel in by_symbol.items()],
        "text": str(program),
        "extra": extra,
        "source": written,
        "sections": [
            [len(content), space, _digest(content, bytes(zero))]
            for content, space, zero in zip(contents, spaces, zeros, strict=True)
        ],
    }
    data = json.dumps(head, separators=(",", ":")).encode()
    data += b" " * (-(START + len(data)) % PAGE)
    start = MAGIC + struct.pack("<Q", len(data)) + hashlib.sha256(data).digest()
    sections = ((content, bytes(zero)) for content, zero in zip(contents, zeros, strict=True))
    replace_file(path, (start, data, *chain.from_iterable(sections)))


def load_program(path: Path, threads: int | None = None, *, mapped: bool = True) -> SavedProgram:
    """Returns the program of a file, whose constants stay in the file's pages if ``mapped``, else
    are copied to memory as those of a program that is compiled.

    Raises LoopwrightValueError if the file is damaged, is of another version, or was made for a
    processor that can do more than this one; OSError if it cannot be read, or others may write it.
    """
    data = memoryview(map_named(path, run=True))
    if len(data) < START:
        raise _damaged(path, "it is too short")
    head, base = _head(path, data)
    try:
        target = _target(path, head["target"])
        sections = _sections(path, head["sections"], data[base:], mapped)
        return _linked(head, sections, target, threads)
    except LoopwrightValueError:
        raise
    except Exception as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def load_source(path: Path) -> tuple[Source, int | None, Mapping[str, Any]]:
    """Returns the source of a file, the threads of its code, and its ``extra``; no code is read.

    Raises LoopwrightValueError if the file is damaged, has no source or is of another version;
    OSError if it cannot be read.
    """
    data = memoryview(read_named(path, MOST_FILE_BYTES))  # not mapped: others may change it
    if len(data) < START:
        raise _damaged(path, "it is too short")
    head, base = _head(path, data)
    row = head.get("source")
    if row is None:
        raise LoopwrightValueError(
            f"{path} holds no program that could be compiled here",
            hint="save it without source=False",
        )
    sections = _sections(path, head["sections"], data[base:], mapped=True)
    constants: dict[str, Array] = {}
    for name, number, *spec in row["constants"]:
        constants[str(name)] = _array(sections[_size(number)], _spec(spec, FileSizes()))
    source = Source(str(row["text"]), constants, row["schedules"])
    return source, head["threads"], head["extra"]


def _written_source(source: Source, contents: list[memoryview]) -> dict[str, Any]:
    """Returns a source as a head has it; adds its arrays to the sections, unless they are there."""
    numbers = {hashlib.sha256(c).digest(): number for number, c in enumerate(contents)}
    rows: list[list[Any]] = []
    before = len(contents)
    for name, array in source.constants.items():
        content = _bytes(np.ascontiguousarray(array))
        number = numbers.setdefault(hashlib.sha256(content).digest(), len(contents))
        if number == len(contents):
            contents.append(content)
        rows.append([name, number, dtype_of(array.dtype).name, list(array.shape)])
    return {
        "text": source.text,
        "schedules": source.schedules,
        "constants": rows,
        "sections": len(contents) - before,
    }


def written_size(size: IntExpr) -> int | str:
    """A size as a file has it."""
    return size if isinstance(size, int) else str(size)


def _operand(dtype: str, shape: Sequence[IntExpr], written: bool) -> list[Any]:
    return [dtype, [*map(written_size, shape)], written]


def _bytes(content: bytes | Array) -> memoryview:
    if isinstance(content, bytes) or not content.size:
        return memoryview(bytes(content))
    return content.reshape(-1).view(np.uint8).data


def _digest(*parts: bytes | memoryview) -> str:
    digest = Digest()
    for part in parts:
        digest.update(memoryview(part))
    return digest.hexdigest()


def _layout(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the bytes from each section's begin to that of the next, and how many are zeros.

    What is large begins in the middle of a page, for the reason given at ``IN_PAGE``.
    """
    begin, spaces = 0, list[int]()
    for size, following in zip(sizes, [*sizes[1:], 0], strict=True):
        unit, place = (PAGE, IN_PAGE) if following >= PAGED_BYTES else (CACHE_LINE, 0)
        end = begin + size
        end += (place - end) % unit
        spaces.append(end - begin)
        begin = end
    return spaces, [space - size for space, size in zip(spaces, sizes, strict=True)]


def _head(path: Path, data: memoryview) -> tuple[dict[str, Any], int]:
    """Returns the head, and where the sections begin."""
    magic = bytes(data[: len(MAGIC)])
    if magic[:6] != MAGIC[:6]:
        raise _damaged(path, "it is not a saved program")
    if magic != MAGIC:
        raise LoopwrightValueError(
            f"{path} is a saved program of another version of its format, {magic[6:7]!r}",
            hint="f.lower(...).save(...) with this version of Loopwright",
        )
    (length,) = struct.unpack_from("<Q", data, len(MAGIC))
    if not 0 < length <= min(LONGEST_HEAD, len(data) - START):
        raise _damaged(path, "it is too short for its head")
    text = bytes(data[START : START + length])
    if hashlib.sha256(text).digest() != bytes(data[START - 32 : START]):
        raise _damaged(path, "its head is not as it was written")
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its head cannot be read ({error})") from None
    if not isinstance(head, dict):
        raise _damaged(path, "its head is not a table")
    return head, START + length


def _target(path: Path, row: Mapping[str, Any]) -> Target:
    """Returns the target of a program, if this machine runs its code."""
    features = frozenset(row["features"])
    if row["isa"] not in ISA_LEVELS or not features <= FEATURES.keys():
        raise LoopwrightValueError(f"{path} was made for {row['isa']}, which is not known here")
    target, host = Target(row["isa"], features=features), Target.host()
    missing = target.level.cpu_flags - host.level.cpu_flags | target.features - host.features
    if missing:
        raise LoopwrightValueError(
            f"{path} was made for a processor with {', '.join(sorted(missing))}, which this one "
            f"({host.isa}) lacks",
            hint="save it here, or with target= of lw.compile for the least of your machines",
        )
    return target


def _sections(path: Path, rows: Sequence[Any], data: memoryview, mapped: bool) -> list[memoryview]:
    """Returns the bytes of every section, which have been held against their hashes: those of
    ``data`` if ``mapped``, else copies, which are hashed while they lie in the cache."""
    ends = list(accumulate(int(space) for _, space, _ in rows))
    begins = [0, *ends[:-1]]
    if any(not 0 <= int(size) <= int(space) for size, space, _ in rows) or (
        (ends[-1] if ends else 0) != len(data)
    ):
        raise _damaged(path, "its sections do not fill it")
    memory = HugePages(0 if mapped else sum(int(size) for size, _, _ in rows))

    def checked(n: int) -> memoryview | None:
        size, _, expected = rows[n]
        section, padding = data[begins[n] : begins[n] + size], data[begins[n] + size : ends[n]]
        kept = section if mapped else memory.array((size,), np.dtype(np.uint8)).data
        digest = Digest()
        for part in range(0, size, PIECE_BYTES):
            piece = kept[part : part + PIECE_BYTES]
            if not mapped:
                piece[:] = section[part : part + PIECE_BYTES]
            digest.update(piece)
        digest.update(padding)
        return kept if digest.hexdigest() == expected else None

    sections = parallel_map(checked, range(len(rows)))
    if None in sections:
        raise _damaged(path, f"section {sections.index(None)} is not as it was written")
    return cast(list[memoryview], sections)


def _linked(
    head: Mapping[str, Any],
    sections: Sequence[memoryview],
    target: Target,
    threads: int | None,
) -> SavedProgram:
    names = [(str(symbol), str(name)) for symbol, name in head["kernels"]]
    entry, *rest = sections
    codes = [bytes(code) for code in rest[: len(names)]]
    loaded = [load_object(code, pool.symbols()) for code in codes]
    places = {s: code.address(name) for (s, name), code in zip(names, loaded, strict=True)}
    places |= status.called_symbols(bytes(entry))
    sizes = FileSizes(head.get("sizes", ()))
    calls = {str(row[0]): _library_call(row, sizes) for row in head["libraries"]}
    sites, kept = linked_sites(calls)
    code = load_object(bytes(entry), {**places, **sites})
    specs = [_spec(row, FileSizes()) for row in head["constants"]]
    more = 0 if head["source"] is None else _size(head["source"]["sections"])
    constants = [
        _array(section, spec)
        for section, spec in zip(rest[len(names) : len(rest) - more], specs, strict=True)
    ]
    inputs, outputs = ([_spec(row, sizes) for row in head[name]] for name in ("inputs", "outputs"))
    arena = sizes.value(head["arena"])
    executable = Executable(
        code.address(ENTRY),
        inputs,
        outputs,
        constants,
        arena,
        owner=(code, *loaded, *kept),
        threads=head["threads"] if threads is None else threads,
        sizes=sizes.table(inputs, outputs, arena, head),
        solver=code.address(SIZES) if sizes.symbols else 0,
    )
    return SavedProgram(executable, target, str(head["text"]), head["extra"])


def _library_call(row: Any, sizes: FileSizes) -> LibraryCall:
    _, function, options, operands, place = row
    types = tuple((str(d), tuple(map(sizes.value, shape)), bool(w)) for d, shape, w in operands)
    return LibraryCall(str(function), tuple((str(k), _tuples(v)) for k, v in options), types, place)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _array(section: memoryview, spec: ArraySpec) -> Array:
    """Returns the array of a section, which is read in place."""
    flat = np.frombuffer(section, spec.dtype) if section.nbytes else np.empty(0, spec.dtype)
    return flat.reshape([as_int(size) for size in spec.shape])


def _spec(row: Any, sizes: FileSizes) -> ArraySpec:
    dtype, shape = row
    spec = ArraySpec(tuple(map(sizes.value, shape)), dtype_of(dtype).numpy)
    if isinstance(spec.nbytes, int):
        _size(spec.nbytes)
    return spec


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"{value!r} is not a size")
    return value


def _damaged(path: Path, why: str) -> LoopwrightValueError:
    return LoopwrightValueError(f"{path} is damaged: {why}")
