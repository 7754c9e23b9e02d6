"""The C file of a bundle: the function that its header declares, in the place of the object."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir.dims import Dim, IntExpr, Symbol
from ...ir.dtype import Array
from ...ir.program.analysis import fixed_regions
from ...ir.program.nodes import Program
from ...ir.size_table import ADDRESSABLE_BYTES
from ..bundle.header import parameters
from ..bundle.interface import CACHE_LINE, Interface, arena_limit
from ..bundle.objects import LIBM
from ..bundle.weights import MAGIC, Weights
from ..bundle.wrapper import Variant
from ..entry import arena_bytes
from .programs import RUN, helpers_text, program_text
from .scalars import IndexText, Names

LEAST = "x86-64"
"""The level whose C has loops where others have vectors."""


def c_file(interface: Interface, variant: Variant, weights: Weights) -> tuple[str, list[str]]:
    """Returns the C11 text of a function, and what it needs of libm. It has vectors of GCC and
    Clang as long as those of the variant's target; for the least level it has none, for any
    compiler.

    Raises UnsupportedError for library calls, and for scalar operators that are not written in C.
    """
    program, target = variant.program, variant.target
    entry = _Entry(interface, program, weights)
    text = "\n".join(
        [
            f'#include "{interface.name}.h"',
            "",
            helpers_text(),
            program_text(program, variant.kernels, None if target.isa == LEAST else target),
            helpers_text("check.h").replace("@", f"{interface.upper}_"),
            *entry.globals(),
            *entry.function(),
            *(entry.sizes_function() if interface.sizes else ()),
            "",
        ]
    )
    return text, sorted(LIBM & set(re.findall(r"\w+", text)))


class _Entry:
    def __init__(self, interface: Interface, program: Program, weights: Weights) -> None:
        self.interface, self.program, self.weights = interface, program, weights
        sizes = zip(interface.sizes, interface.size_names, strict=True)
        names = Names(by_name={size.name: name for size, name in sizes})
        self.index = IndexText(names, {s.name: s.range or (0, 0) for s in interface.sizes})
        self.arena = arena_bytes(program)

    def globals(self) -> list[str]:
        """Returns what is declared before the function."""
        lines: list[str] = []
        if self.interface.linked_weights:
            lines.append(f"extern const char {self.interface.weights_symbol}[];")
        if self.interface.static_memory:
            self.static = max(arena_limit(self.arena, self.interface.sizes), 1)
            lines += [
                "#include <stdatomic.h>",
                "static atomic_flag lw_busy = ATOMIC_FLAG_INIT;",
                f"static _Alignas(4096) char arena[{self.static}];",
            ]
        return [*lines, ""] if lines else []

    def function(self) -> list[str]:
        """The function itself: it checks what it is handed, and runs the program."""
        interface, name = self.interface, self.interface.name
        params = ", ".join(kind + word for kind, word in parameters(interface)) or "void"
        weights = interface.weights_symbol if interface.linked_weights else "weights"
        count, tag = len(interface.inputs) + 1, len(MAGIC)
        rows = [
            *((o.name, self._bytes(o.nbytes), o.align) for o in interface.inputs),
            (weights, str(len(self.weights.data)), CACHE_LINE),
            *((o.name, self._bytes(o.nbytes), o.align) for o in interface.outputs),
            ("arena", self._bytes(self.arena), CACHE_LINE),
        ]
        args = [f"(void *){o.name}" for o in interface.operands]
        for constant in self.program.constants:
            assert constant.value is not None
            args.append(self._constant(weights, constant.value))
        assert len(args) == len(fixed_regions(self.program))
        written = self.weights.tag.to_bytes(8, "little")
        text = "".join(f"\\x{byte:02x}" for byte in written)
        return [
            f"int {name}({params}) {{",
            *self._checks(interface.sizes),
            "  const lw_operand operands[] = {",
            *(f"      {{{address}, {nbytes}, {align}}}," for address, nbytes, align in rows),
            "  };",
            f"  int status = lw_check(operands, {len(rows)}, {count});",
            "  if (status != 0) return status;",
            f'  if (memcmp((const char *){weights} + {tag}, "{text}", 8) != 0)',
            f"    return {interface.upper}_WEIGHTS;",
            *self._listed("void *const args[]", args),
            *self._listed("const int64_t sizes[]", list(interface.size_names) or ["0"]),
            *(
                [
                    "  if (atomic_flag_test_and_set(&lw_busy))",
                    f"    return {interface.upper}_BUSY;",
                ]
                * interface.static_memory
            ),
            f"  status = {RUN}(sizes, args, arena);",
            *(["  atomic_flag_clear(&lw_busy);"] * interface.static_memory),
            "  return status;",
            "}",
        ]

    def sizes_function(self) -> list[str]:
        """The function that answers with the bytes of all memory, and shapes, for sizes."""
        interface, name = self.interface, self.interface.name
        params = ", ".join(f"int64_t {n}" for n in interface.size_names)
        lines = [
            "",
            f"int {name}_sizes({params}, struct {name}_memory *memory) {{",
            f"  if (memory == NULL) return {interface.upper}_NULL;",
            *self._checks(interface.sizes),
            f"  memory->arena_bytes = memory->unused = {self._bytes(self.arena)};",
        ]
        for operand in interface.operands:
            lines.append(f"  memory->{operand.name}_bytes = {self._bytes(operand.nbytes)};")
        for operand in interface.outputs:
            for axis, size in enumerate(operand.shape):
                lines.append(f"  memory->{operand.name}_shape[{axis}] = {self._bytes(size)};")
        return [*lines, f"  return {interface.upper}_OK;", "}"]

    def _checks(self, sizes: Sequence[Symbol]) -> list[str]:
        """The lines that refuse sizes: out of range, against the program's checks, or too large."""
        tests: list[str] = []
        for size in sizes:
            name = self.index.names.of(size.name)
            low, high = size.range or (0, 0)
            tests.append(f"{name} < {low} || {name} > {high}")
        for nbytes in (*(o.nbytes for o in self.interface.operands), self.arena):
            if isinstance(nbytes, Dim):
                tests.append(f"{self._most(nbytes)} >= {ADDRESSABLE_BYTES}.0")
        for check in self.program.checks:
            left, right = self.index.text(check.left), self.index.text(check.right)
            tests.append(f"!({left} {check.relation} {right})")
        if self.interface.static_memory and isinstance(self.arena, Dim):
            tests.append(f"{self.index.text(self.arena)} > {self.static}")
        refuse = f"return {self.interface.upper}_SIZE;"
        return [f"  if ({test}) {refuse}" for test in dict.fromkeys(tests)]

    def _most(self, value: IntExpr) -> str:
        """A bound of an expression as C computes it in double, where nothing overflows."""
        if not isinstance(value, Dim):
            return f"{abs(value)}.0"
        terms: list[str] = []
        for monomial, coefficient in value.terms:
            factors = [f"{abs(coefficient)}.0"]
            for atom in monomial:
                if isinstance(atom, Symbol):
                    factors.append(f"(double){self.index.names.of(atom.name)}")
                else:
                    factors.append(f"({self._most(atom.left)} + {self._most(atom.right)})")
            terms.append(" * ".join(factors))
        return " + ".join(terms)

    def _constant(self, weights: str, value: Array) -> str:
        return f"(char *){weights} + {self.weights.offset(value)}"

    def _listed(self, declared: str, values: Sequence[str]) -> list[str]:
        rows = [f"      {value}," for value in values or ["NULL"]]
        return [f"  {declared} = {{", *rows, "  };"]

    def _bytes(self, value: IntExpr) -> str:
        return self.index.text(value)
