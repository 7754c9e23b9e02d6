"""A compiled function as C sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from keyword import kwlist
from pathlib import Path

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, Symbol, evaluate
from ...ir.dtype import DType
from ...ir.errors import UnsupportedError
from ...ir.program.analysis import largest
from ...ir.program.nodes import Program, Region

CACHE_LINE = 64
MOST_STATIC_BYTES = 1 << 30
"""Bytes of memory in an object, at most: code reaches 2 GiB, all of a program's objects."""
THREADS = ("none", "callback", "pool")
"""Ways to run parallel loops: the caller, a function of the user's, or threads of the bundle."""

_FLOATS = {"float32": "float", "float64": "double", "complex64": "float", "complex128": "double"}
_NOTES = {
    "bool": "0 or 1 in a byte",
    "float16": "IEEE half precision in 16 bits",
    "bfloat16": "the upper 16 bits of a float",
    "complex64": "pairs of real and imaginary part",
    "complex128": "pairs of real and imaginary part",
}
_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm bool catch class delete explicit export false friend mutable
    namespace new operator private protected public template this throw true try typename using
    virtual main NULL NAN INFINITY weights arena memory ctypes mmap os threading np
    abort abs access atof atoi bsearch calloc clock close div dup exit fork free getenv index labs
    link malloc memchr memcmp memcpy memmove memset munmap nice open pause pipe printf puts qsort
    raise rand random read realloc remove rename rindex select signal sleep stat strcat strchr
    strcmp strcpy strlen strtod sync system time unlink wait write j0 j1 jn y0 y1 yn gamma lgamma
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2
    expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp log log10
    log1p log2 logb lrint lround modf nan nearbyint nextafter pow remainder rint round roundeven
    scalb signbit sin sinh sqrt tan tanh tgamma trunc errno stderr stdin stdout size_t
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
"""
RESERVED = frozenset(kwlist) | frozenset(
    word + suffix for word in _WORDS.split() for suffix in ("", "f", "l")
)
"""Words of C, C++ and Python, and functions of C's library, some of which have suffixes by type."""


def c_type(dtype: DType) -> str:
    """Returns the C type of an element, of a complex one that of its parts: floats shorter than
    float32 are their bits. Raises UnsupportedError if there is none.

    >>> from loopwright.ir.dtype import DTYPES
    >>> c_type(DTYPES["int8"]), c_type(DTYPES["float16"])
    ('int8_t', 'uint16_t')
    """
    if dtype.is_half:
        return f"uint{8 * dtype.bytes}_t"
    if dtype.is_integer:
        return f"{'' if dtype.is_signed else 'u'}int{8 * dtype.bytes}_t"
    if dtype.is_bool:
        return "bool"
    return _FLOATS[dtype.name]


@dataclass(frozen=True, slots=True)
class COperand:
    """An array that C hands over by its first element. ``align`` are the bytes by which its address
    has to be divisible."""

    name: str
    dtype: DType
    shape: tuple[IntExpr, ...]
    nbytes: IntExpr
    align: int

    @property
    def c_type(self) -> str:
        """The C type of an element."""
        return "uint8_t" if self.dtype.is_bool else c_type(self.dtype)

    @property
    def tolerance(self) -> tuple[float, float]:
        """Most that a number of the example may be off: absolute, and over the largest of its
        array, since levels add up in other orders. Bits of short floats count as integers."""
        if not self.dtype.name.startswith(("float", "complex", "bfloat")):
            return 0, 0
        return (64, 0) if self.c_type == "uint16_t" else (0, 1e-3)

    @property
    def note(self) -> str:
        """Returns the meaning of an element, where its C type does not say it."""
        return _NOTES.get(self.dtype.name, "")

    @property
    def shape_text(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Interface:
    """The C function ``name``: its inputs, outputs and symbolic sizes, and how it is built.

    ``size_names`` are C's names for ``sizes``. With ``static_memory`` the arena is part of the
    object, with ``linked_weights`` the weights are an object to link; else the caller hands them
    over.
    """

    name: str
    inputs: tuple[COperand, ...]
    outputs: tuple[COperand, ...]
    sizes: tuple[Symbol, ...]
    size_names: tuple[str, ...]
    threads: str = "none"
    static_memory: bool = False
    linked_weights: bool = False

    @property
    def operands(self) -> tuple[COperand, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def upper(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @property
    def weights_symbol(self) -> str:
        return f"{self.name}_weights"


def interface_of(
    name: str,
    program: Program,
    inputs: Sequence[str],
    outputs: Sequence[str],
    threads: str = "none",
    static_memory: bool = False,
    linked_weights: bool = False,
) -> Interface:
    """Returns the C interface of a program whose arrays have these names.

    Raises UnsupportedError for a dtype that C has no type for.
    """
    results = [f"result{n}" if n.isdecimal() else n for n in outputs]
    if len(results) == 1 and outputs[0].isdecimal():
        results = ["result"]
    sizes = [s.name for s in program.sizes]
    names = c_names([*inputs, *results, *sizes])
    regions = (*program.inputs, *largest(program, program.outputs))
    written = len(program.inputs)
    operands = tuple(
        _operand(c_name, region, number >= written)
        for number, (c_name, region) in enumerate(zip(names, regions, strict=False))
    )
    return Interface(
        c_names([name])[0],
        operands[:written],
        operands[written:],
        program.sizes,
        tuple(names[len(operands) :]),
        threads,
        static_memory,
        linked_weights,
    )


def _operand(name: str, region: Region, written: bool) -> COperand:
    dtype, nbytes = region.dtype, region.nbytes
    if (dtype.bits < 8 * dtype.bytes and not dtype.is_bool) or dtype.name.startswith("float8"):
        raise UnsupportedError(
            f"{name} is {region.type_text}, for which C has no type",
            hint="convert it to a wider dtype in the function",
        )
    align = dtype.bytes
    if written:  # results are written by whole aligned vectors, unless they are smaller
        align = CACHE_LINE
        while isinstance(nbytes, int) and align > max(nbytes, dtype.bytes):
            align //= 2
    return COperand(name, dtype, region.shape, nbytes, align)


def c_names(names: Iterable[str]) -> list[str]:
    """Returns names that C and C++ accept, all different.

    >>> c_names(["x", "x", "images/0", "float", "exp"])
    ['x', 'x_1', 'images_0', 'float_', 'exp_']
    """
    made: list[str] = []
    for name in names:
        clean = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        clean = f"n{clean}" if clean[0].isdigit() else clean
        clean += "_" * (clean in RESERVED)
        candidate, count = clean, 0
        while candidate in made:
            count += 1
            candidate = f"{clean}_{count}"
        made.append(candidate)
    return made


def filled(file: str, **words: object) -> str:
    """Returns the text of a file beside this one, in which values stand for ``@WORDS@``."""
    text = Path(__file__).with_name(file).read_text()
    return re.sub(r"@([A-Z]+)@", lambda word: str(words[word[1]]), text)


def arena_limit(nbytes: IntExpr, sizes: Sequence[Symbol]) -> int:
    """Returns the bytes of an arena for all sizes in their ranges. Raises UnsupportedError
    if they are too many."""
    most = evaluate(nbytes, {s.name: s.high or 0 for s in sizes})
    if most > MOST_STATIC_BYTES:
        names = ", ".join(s.name for s in sizes)
        raise UnsupportedError(
            f"static memory would be {most:,} bytes" + f" for all values of {names}" * bool(names),
            hint=f"give a range: --arg {names}=1..64" if names else "leave static memory out",
        )
    return most
