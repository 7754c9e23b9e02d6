"""The files of a bundle beside its header: an example in C with a stored result, and a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...ir.dims import evaluate
from ...ir.dtype import Array
from ..target import X86_LEVELS, Target
from .header import most, parameters
from .interface import CACHE_LINE, COperand, Interface
from .objects import LIBM
from .weights import Weights
from .wrapper import Variant

EXAMPLE_TOLERANCE = 1e-3
"""Most that a number may be off, over the largest of its result: levels add up in other orders."""


def example_data(arrays: Sequence[Array]) -> bytes:
    """Returns the operands of the example, each padded to whole cache lines."""
    contents = (np.ascontiguousarray(a).tobytes() for a in arrays)
    return b"".join(c.ljust(_padded(len(c)), b"\0") for c in contents)


def _padded(size: int) -> int:
    return max(1, -(-size // CACHE_LINE)) * CACHE_LINE


def example_text(
    interface: Interface,
    variants: Sequence[Variant],
    weights: Weights,
    sizes: Mapping[str, int],
) -> str:
    """Returns a program in C that runs the function on stored inputs, and compares the results."""
    name, upper = interface.name, interface.upper
    nbytes = [evaluate(o.nbytes, sizes) for o in interface.operands]
    offsets = [sum(map(_padded, nbytes[:n])) for n in range(len(nbytes) + 1)]
    inputs = len(interface.inputs)
    arena = most([v.arena for v in variants])
    lines = [
        f"/* Runs {name} on the inputs of {name}.example.bin, and compares with its results. */",
        f'#include "{name}.h"',
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "",
        *_reader(),
        *_comparison(interface.outputs),
        "int main(int count, char **words) {",
        '    const char *folder = count > 1 ? words[1] : ".";',
        "    int status, wrong = 0;",
        f'    unsigned char *stored = read_file(folder, "{name}.example.bin", {offsets[-1]});',
    ]
    for size_name, size in zip(interface.size_names, interface.sizes, strict=True):
        lines.append(f"    int64_t {size_name} = {sizes[size.name]};")
    if not interface.linked_weights:
        lines += [
            f'    void *weights = read_file(folder, "{name}.weights.bin", {len(weights.data)});',
        ]
    for n, operand in enumerate(interface.operands):
        begin = f"stored + {offsets[n]}"
        if n < inputs:
            lines.append(
                f"    const {operand.c_type} *{operand.name} = "
                f"(const {operand.c_type} *)(const void *)({begin});"
            )
        else:
            lines.append(f"    {operand.c_type} *{operand.name} = memory({nbytes[n]});")
    if not interface.static_memory and arena is not None:
        lines.append(f"    void *arena = memory({upper}_ARENA_BYTES);")
    elif not interface.static_memory:
        arguments = ", ".join(interface.size_names)
        lines += [
            "    void *arena;",
            f"    struct {name}_memory needed;",
            f"    if ((status = {name}_sizes({arguments}, &needed)) != 0) {{",
            f'        fprintf(stderr, "{name}: %s\\n", {name}_status_text(status));',
            "        return 1;",
            "    }",
            "    arena = memory((size_t)needed.arena_bytes);",
        ]
    handed = ", ".join(word for _, word in parameters(interface))
    lines += [
        f"    status = {name}({handed});",
        "    if (status != 0) {",
        f'        fprintf(stderr, "{name}: %s\\n", {name}_status_text(status));',
        "        return 1;",
        "    }",
    ]
    for n, operand in enumerate(interface.outputs, inputs):
        count = nbytes[n] // max(1, _part_bytes(operand))
        lines.append(
            f'    wrong += compare_{_kind(operand)}("{operand.name}", {operand.name}, '
            f"stored + {offsets[n]}, {count});"
        )
    lines += ["    return wrong != 0;", "}", ""]
    return "\n".join(lines)


def _part_bytes(operand: COperand) -> int:
    return operand.dtype.bytes // (2 if operand.dtype.name.startswith("complex") else 1)


def _kind(operand: COperand) -> str:
    """The name of the comparison of an operand's elements."""
    return operand.c_type.removesuffix("_t")


def _reader() -> Iterator[str]:
    yield f"""static void *memory(size_t bytes) {{
    void *made = aligned_alloc({CACHE_LINE}, (bytes / {CACHE_LINE} + 1) * {CACHE_LINE});
    if (made == 0)
        exit(2);
    return made;
}}

static void *read_file(const char *folder, const char *name, size_t bytes) {{
    char path[4096];
    unsigned char *data = memory(bytes);
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == 0 || fread(data, 1, bytes, file) != bytes) {{
        fprintf(stderr, "%s cannot be read\\n", path);
        exit(2);
    }}
    fclose(file);
    return data;
}}
"""


def _comparison(outputs: Sequence[COperand]) -> Iterator[str]:
    for kind, operand in {_kind(o): o for o in outputs}.items():
        exact = not operand.dtype.name.startswith(("float", "complex", "bfloat"))
        bits = operand.c_type == "uint16_t" and not exact
        limit = "64" if bits else "0" if exact else f"{EXAMPLE_TOLERANCE} * largest"
        yield f"""static int compare_{kind}(const char *name, const {operand.c_type} *given,
                         const void *stored, size_t count) {{
    const {operand.c_type} *expected = stored;
    double largest = 0, apart = 0;
    size_t n, other = 0;
    for (n = 0; n < count; n++) {{
        double a = (double)given[n], b = (double)expected[n];
        double size = b < 0 ? -b : b, error = a < b ? b - a : a - b;
        if (a == b || (a != a && b != b))
            error = 0;
        if (error != error)
            other++;
        if (size > largest && size - size == 0)
            largest = size;
        if (error > apart)
            apart = error;
    }}
    printf("%s: %zu numbers, at most %g from those stored\\n", name, count, apart);
    return other != 0 || apart > {limit};
}}
"""


def _compiled(name: str, level: Target) -> list[str]:
    """The lines that compile the C file; its processor is that of the machine unless it is a level
    of x86-64."""
    flags = ["-O3", "-ffp-contract=fast", "-fno-math-errno", "-fopenmp"]
    flags += [f"-march={level.isa}"] if level.isa in X86_LEVELS else []
    return [
        f"target_sources({name} INTERFACE ${{CMAKE_CURRENT_LIST_DIR}}/{name}.c)",
        f"target_compile_options({name} INTERFACE {' '.join(flags)})",
        f"target_link_options({name} INTERFACE -fopenmp)",
    ]


def cmake_text(interface: Interface, undefined: Sequence[str], level: Target | None = None) -> str:
    """Returns a CMakeLists.txt: the library, the example, and a test that runs it. With ``level``
    the code is C for that target."""
    name = interface.name
    objects = [] if level else [f"${{CMAKE_CURRENT_LIST_DIR}}/{name}.o"]
    if interface.linked_weights:
        objects.append(f"${{CMAKE_CURRENT_LIST_DIR}}/{name}.weights.o")
    libraries = ["m"] * bool(LIBM & set(undefined))
    lines = [
        "cmake_minimum_required(VERSION 3.13)",
        f"project({name} C)",
        "",
        f"add_library({name} INTERFACE)",
        *(_compiled(name, level) if level else ()),
        *(f"target_link_libraries({name} INTERFACE {path})" for path in (*objects, *libraries)),
        f"target_include_directories({name} INTERFACE ${{CMAKE_CURRENT_LIST_DIR}})",
    ]
    if interface.threads == "pool":
        lines += [
            "find_package(Threads REQUIRED)",
            f"target_link_libraries({name} INTERFACE Threads::Threads)",
        ]
    lines += [
        "",
        f"add_executable({name}_example {name}_example.c)",
        f"set_target_properties({name}_example PROPERTIES C_STANDARD 11)",
        f"target_link_libraries({name}_example {name})",
        "enable_testing()",
        f"add_test(NAME {name} COMMAND {name}_example ${{CMAKE_CURRENT_LIST_DIR}})",
        "",
    ]
    return "\n".join(lines)
