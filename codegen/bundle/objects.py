"""The object of a bundle, and the symbols that it refers to."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from ...ir.errors import RAISE_FAILED, InternalError, UnsupportedError
from ...ir.program.analysis import instructions
from ...ir.program.nodes import Library
from ..entry import ENTRY
from ..library_calls import library_calls
from ..llvm.clock import CLOCK_TEXT
from ..llvm.one_object import LinkedText, one_object
from ..llvm.store import with_addresses
from ..program import called_symbols, program_entry
from ..runtime.pool_text import pool_text
from ..size_text import SIZES
from ..target import X86_LEVELS, Target
from .interface import Interface
from .wasm import is_wasm, undefined_functions
from .weights import Weights
from .wrapper import Variant, public_symbols, runtime_text, wrapper_text

_RUNTIME = ("lw_parallel_for", "lw_poll", "lw_stack_end", "lw_library", "lw_library_sized")
_OWN = ("lw_check", "lw_cpu")
_POOL = ("lw_pool_begin", "lw_pool_configure", "lw_pool_forget", "lw_pool_stop")


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


LIBC = _names(
    "memcpy memset memmove syscall clock_gettime sched_yield sched_getcpu sched_getaffinity",
    "sched_setaffinity sigfillset pthread_create pthread_join pthread_attr_init pthread_sigmask",
    "pthread_attr_setstacksize pthread_attr_destroy pthread_key_create pthread_getspecific",
    "pthread_setspecific",
)
LIBM = _names(
    "fmod floor ceil trunc rint nearbyint round roundeven fma sqrt exp log pow sin cos ldexp",
    "fmodf floorf ceilf truncf rintf nearbyintf roundf roundevenf fmaf sqrtf expf logf powf sinf",
    "cosf ldexpf",
)
COMPILER = _names(
    "__divti3 __udivti3 __modti3 __umodti3 __extendhfsf2 __truncsfhf2 __truncdfhf2 __truncsfbf2",
    "__truncdfbf2 __gnu_h2f_ieee __gnu_f2h_ieee",
)
"""Names that an object may refer to: of the C library, of its mathematical part, and of the library
that comes with every C compiler."""


def bundle_object(interface: Interface, variants: Sequence[Variant], weights: Weights) -> bytes:
    """Returns the relocatable object of a function for one level, or for several of x86-64, the
    least first.

    Raises UnsupportedError for library calls other than a check's.
    """
    for variant in variants:
        _refuse_libraries(variant)
    least = Target("x86-64" if variants[0].target.isa in X86_LEVELS else variants[0].target.isa)
    runtime = {name: name for name in (*_RUNTIME, *_OWN)}
    public = public_symbols(interface, variants)
    texts = [
        LinkedText(wrapper_text(interface, variants, weights), least, {n: n for n in public}),
        LinkedText(runtime_text(interface, least), least, runtime | {n: n for n in public}),
    ]
    if interface.threads == "pool":
        names = {name: name for name in _POOL} | {"lw_parallel_for": "lw_pool_for"}
        texts.append(LinkedText(with_addresses(CLOCK_TEXT + pool_text(least)), least, names))
    for number, variant in enumerate(variants):
        texts += _program_texts(number, variant, least)
    if is_wasm(least):
        text = Path(__file__).with_name("wasm.ll").read_text()
        texts.append(LinkedText(text, least, {"__multi3": "__multi3"}))
        public |= {"__multi3"}
    code = one_object(texts, public, least)
    allowed = LIBC | LIBM | COMPILER | {interface.weights_symbol}
    if others := [name for name in undefined_symbols(code) if name not in allowed]:
        raise InternalError(f"the object of a bundle refers to {', '.join(others)}")
    return code


def _program_texts(number: int, variant: Variant, least: Target) -> list[LinkedText]:
    """Returns the texts of a variant: its entry and its kernels, whose symbols get its number."""
    program, kernels, target = variant.program, variant.kernels, variant.target
    called = called_symbols(program, kernels)
    runtime = {name: name for name in _RUNTIME}
    symbols = [ENTRY, SIZES, *called.values(), *library_calls(program)]
    names = runtime | {symbol: f"{number}.{symbol}" for symbol in symbols}
    texts = [LinkedText(program_entry(program, kernels), target, names)]
    by_symbol = {symbol: kernels[name] for name, symbol in called.items()}
    for symbol, kernel in by_symbol.items():
        names = runtime | {kernel.name: f"{number}.{symbol}"}
        texts.append(LinkedText(kernel.code.text, target, names))
    sites = [f"{number}.{symbol}" for symbol in library_calls(program)]
    if sites:
        text = "\n".join(f'@"{site}" = constant i8 0' for site in sites)
        texts.append(LinkedText(text, least, {site: site for site in sites}))
    return texts


def _refuse_libraries(variant: Variant) -> None:
    for instr in instructions(variant.program):
        if isinstance(instr, Library) and instr.function != RAISE_FAILED:
            raise UnsupportedError(
                f"{instr.function} runs in a Python library, which a bundle cannot take along",
                span=instr.span,
                hint="compute it outside of the function, and hand over the result as an argument",
            )


def undefined_symbols(code: bytes) -> list[str]:
    """Returns the names that an object refers to and does not define, sorted."""
    if code.startswith(b"\0asm"):
        return undefined_functions(code)
    (start,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    rows = list(struct.iter_unpack("<IIQQQQIIQQ", code[start : start + 64 * count]))
    names: set[str] = set()
    for _, kind, _, _, offset, size, link, *_ in rows:
        if kind != 2:  # the table of symbols
            continue
        text = rows[link][4]
        for name, _, _, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", code[offset : offset + size]
        ):
            if section == 0 and name:
                names.add(code[text + name : code.index(b"\0", text + name)].decode())
    return sorted(names)
