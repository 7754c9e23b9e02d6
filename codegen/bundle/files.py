"""The files of a bundle beside its header: an example with a stored result, in C with a build, or
in JavaScript with what calls a WebAssembly module."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

import numpy as np

from ...ir.dims import evaluate, substitute, symbol
from ...ir.dtype import Array
from ..target import X86_LEVELS, Target
from .header import element_bytes, most, parameters
from .interface import CACHE_LINE, COperand, Interface, filled
from .objects import LIBM
from .wasm import wasm_module
from .weights import Weights
from .wrapper import STATUSES, Variant, public_symbols


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
        f"int64_t {size_name} = {sizes[size.name]};"
        for size_name, size in zip(interface.size_names, interface.sizes, strict=True)
    ]
    if not interface.linked_weights:
        lines.append(
            f'void *weights = read_file(folder, "{name}.weights.bin", {len(weights.data)});'
        )
    for n, operand in enumerate(interface.operands):
        kind, begin = operand.c_type, f"(const void *)(stored + {offsets[n]})"
        if n < inputs:
            lines.append(f"const {kind} *{operand.name} = (const {kind} *){begin};")
        else:
            lines.append(f"{kind} *{operand.name} = memory({nbytes[n]});")
    if not interface.static_memory and arena is not None:
        lines.append(f"void *arena = memory({upper}_ARENA_BYTES);")
    elif not interface.static_memory:
        arguments = ", ".join(interface.size_names)
        lines += [
            "void *arena;",
            f"struct {name}_memory needed;",
            f"check({name}_sizes({arguments}, &needed));",
            "arena = memory((size_t)needed.arena_bytes);",
        ]
    lines.append(f"check({name}({', '.join(word for _, word in parameters(interface))}));")
    for n, operand in enumerate(interface.outputs, inputs):
        count = nbytes[n] // element_bytes(operand)
        absolute, relative = operand.tolerance
        lines += [
            f'wrong += compare_{operand.c_type}("{operand.name}", {operand.name}, '
            f"stored + {offsets[n]}, {count},",
            f"{' ' * 6}{absolute}, {relative});",
        ]
    kinds = dict.fromkeys(o.c_type for o in interface.outputs)
    return filled(
        "example.c",
        NAME=name,
        LINE=CACHE_LINE,
        STORED=offsets[-1],
        COMPARISONS="\n".join(f"COMPARISON({kind})" for kind in kinds),
        BODY="\n".join(f"    {line}" for line in lines),
    )


def module_files(
    interface: Interface,
    variants: Sequence[Variant],
    weights: Weights,
    example: tuple[Sequence[Array], Mapping[str, int]],
    code: bytes,
    html: str,
) -> dict[str, bytes | str]:
    """Returns the WebAssembly module of an object, what calls it from JavaScript, the example, and
    with ``html`` a page that runs it; by ``"fetch"`` it reads the weights' file, else it has them.
    """
    name, (arrays, sizes) = interface.name, example
    arena = most([v.arena for v in variants])
    symbols = zip(interface.sizes, map(symbol, interface.size_names), strict=True)
    renamed = {size.name: c_symbol for size, c_symbol in symbols}

    def described(operand: COperand) -> dict[str, object]:
        name = _ARRAYS.get(operand.c_type, operand.c_type.removesuffix("_t").capitalize())
        shape = [n if isinstance(n, int) else str(substitute(n, renamed)) for n in operand.shape]
        return {
            "name": operand.name,
            "array": f"{name}Array",
            "dtype": operand.dtype.name,
            "shape": shape,
            "bytes": operand.nbytes if isinstance(operand.nbytes, int) else None,
            "tolerance": operand.tolerance,
        }

    about = {
        "name": interface.name,
        "inputs": [described(o) for o in interface.inputs],
        "outputs": [described(o) for o in interface.outputs],
        "sizes": [
            {"name": name, "low": size.low, "high": size.high, "example": sizes[size.name]}
            for name, size in zip(interface.size_names, interface.sizes, strict=True)
        ],
        "arena": arena,
        "staticMemory": interface.static_memory,
        "statuses": [text for _, text in STATUSES],
    }
    given = [o.name for o in interface.inputs] + [f"{n}: 1" for n in interface.size_names]
    loader = filled(
        "loader.mjs",
        NAME=name,
        RESULT=", ".join(o.name for o in interface.outputs),
        GIVEN=", ".join(given),
        ABOUT=json.dumps(about),
    )
    module = wasm_module(code, public_symbols(interface, variants))
    made: dict[str, bytes | str] = {f"{name}.wasm": module, f"{name}.mjs": loader}
    made[f"{name}_example.mjs"] = filled("example.mjs", NAME=name)
    if html:
        data = base64.b64encode(weights.data).decode()
        inputs = example_data(arrays[: len(interface.inputs)])
        made[f"{name}.html"] = filled(
            "page.html",
            NAME=name,
            # Workers of pages from files can be scripts, but no modules.
            LOADER=loader.replace("export ", "").replace("import.meta.url", "self.location.href"),
            CODE=base64.b64encode(module).decode(),
            WEIGHTS=f"{name}.weights.bin" if html == "fetch" else data,
            EXAMPLE=base64.b64encode(inputs).decode(),
        )
    return made


_ARRAYS = {"float": "Float32", "double": "Float64", "int64_t": "BigInt64", "uint64_t": "BigUint64"}


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
    links = [f"target_link_libraries({name} INTERFACE {path})" for path in (*objects, *libraries)]
    if interface.threads == "pool":
        links += [
            "find_package(Threads REQUIRED)",
            f"target_link_libraries({name} INTERFACE Threads::Threads)",
        ]
    lines = [*(_compiled(name, level) if level else ()), *links]
    return filled("cmake.txt", NAME=name, LINKED="\n".join(lines))
