"""The header of a bundle: what C and C++ have to know of its object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.dims import IntExpr
from .interface import CACHE_LINE, COperand, Interface, filled
from .objects import COMPILER, LIBM
from .weights import Weights
from .wrapper import STATUSES, Variant

MANY_OPERANDS = 8
"""Operands of a function from which on the header has a struct with their names, too."""


def header_text(
    interface: Interface, variants: Sequence[Variant], weights: Weights, undefined: Sequence[str]
) -> str:
    """Returns the header; ``undefined`` are the symbols that the object refers to."""
    upper = interface.upper
    numbered = [(n, word, text) for n, (word, text) in enumerate(STATUSES)]
    names: dict[str, object] = {"NAME": interface.name, "UPPER": upper}
    return filled(
        "header.txt",
        **names,
        LEVELS=", ".join(v.target.isa for v in variants),
        DESCRIBED="\n".join(_described(interface)),
        NEEDS="\n".join(_needs(undefined, interface)),
        STATUSES="\n".join(f"    {upper}_{word} = {n}, /* {text} */" for n, word, text in numbered),
        CONSTANTS="\n".join(_constants(interface, variants, weights)),
        FUNCTIONS="\n".join((*_entry(interface), *_more(interface, variants))),
        TEXTS="\n".join(f'        "{text}",' for _, text in STATUSES),
        COUNT=len(STATUSES),
        MAPPING="" if interface.linked_weights else filled("map_weights.h", **names),
    )


def _described(interface: Interface) -> Iterator[str]:
    for kind, operands in ("takes", interface.inputs), ("gives", interface.outputs):
        for operand in operands:
            note = f": {operand.note}" if operand.note else ""
            yield f"   {kind} {operand.name}: {operand.shape_text}, C order{note}"
    for c_name, size in zip(interface.size_names, interface.sizes, strict=True):
        yield f"   for {c_name} from {size.low} to {size.high}"
    yield ""
    yield "   Every call answers with a status, and writes nothing but a bundle's own memory unless"
    if interface.static_memory:
        yield "   it is 0. One thread at a time can call it: working memory is part of the object."
    else:
        yield "   it is 0. Threads may call it at the same time, each with an arena of its own."


def _needs(undefined: Sequence[str], interface: Interface) -> Iterator[str]:
    others = [n for n in undefined if n != interface.weights_symbol]
    maths = [n for n in others if n in LIBM]
    compiler = [n for n in others if n in COMPILER]
    libc = [n for n in others if n not in LIBM and n not in COMPILER]
    for what, names in ("C library", libc), ("libm", maths), ("compiler's library", compiler):
        yield f"   Needs of the {what}: {', '.join(names) or 'nothing'}."


def _constants(
    interface: Interface, variants: Sequence[Variant], weights: Weights
) -> Iterator[str]:
    upper = interface.upper

    def define(word: str, value: object) -> str:
        return f"#define {upper}_{word} {value}"

    for operand in interface.operands:
        word = operand.name.upper()
        yield define(f"{word}_ALIGN", operand.align)
        if isinstance(operand.nbytes, int):
            yield define(f"{word}_BYTES", operand.nbytes)
            yield define(f"{word}_COUNT", operand.nbytes // element_bytes(operand))
    for c_name, size in zip(interface.size_names, interface.sizes, strict=True):
        yield define(f"{c_name.upper()}_MIN", size.low)
        yield define(f"{c_name.upper()}_MAX", size.high)
    yield define("WEIGHTS_BYTES", len(weights.data))
    arena = most([v.arena for v in variants])
    if not interface.static_memory:
        yield define("MEMORY_ALIGN", CACHE_LINE)
        if arena is not None:
            yield define("ARENA_BYTES", max(arena, CACHE_LINE))


def most(arenas: Sequence[IntExpr]) -> int | None:
    """Returns the largest arena; None if some depend on sizes."""
    numbers = [a for a in arenas if isinstance(a, int)]
    return max(numbers) if len(numbers) == len(arenas) else None


def element_bytes(operand: COperand) -> int:
    """Bytes of what C counts as one element: of a complex number, the parts are two."""
    return operand.dtype.bytes // (2 if operand.dtype.name.startswith("complex") else 1)


def parameters(interface: Interface) -> list[tuple[str, str]]:
    """Returns type and name of all parameters."""
    params = [(f"const {o.c_type} *", o.name) for o in interface.inputs]
    params += [(f"{o.c_type} *", o.name) for o in interface.outputs]
    params += [("int64_t ", n) for n in interface.size_names]
    params += [("const void *", "weights")] * (not interface.linked_weights)
    params += [("void *", "arena")] * (not interface.static_memory)
    return params


def _entry(interface: Interface) -> Iterator[str]:
    name, params = interface.name, parameters(interface)
    if not interface.linked_weights:
        yield f"/* weights: the {interface.upper}_WEIGHTS_BYTES of {name}.weights.bin. */"
    if not interface.static_memory:
        yield "/* arena: working memory, of any content. */"
    text = ", ".join(type + word for type, word in params) or "void"
    yield f"int {name}({text});"
    if interface.sizes:
        sizes = ", ".join(f"int64_t {n}" for n in interface.size_names)
        yield ""
        yield "/* Bytes of all memory, and shapes, for sizes. */"
        yield f"struct {name}_memory {{"
        yield "    int64_t arena_bytes, unused;"
        for operand in interface.inputs:
            yield f"    int64_t {operand.name}_bytes;"
        for operand in interface.outputs:
            yield f"    int64_t {operand.name}_bytes;"
            if operand.shape:
                yield f"    int64_t {operand.name}_shape[{len(operand.shape)}];"
        yield "};"
        yield f"int {name}_sizes({sizes}, struct {name}_memory *memory);"
    if len(params) > MANY_OPERANDS:
        yield ""
        yield f"struct {name}_args {{"
        yield from (f"    {type}{word};" for type, word in params)
        yield "};"
        words = ", ".join(f"args->{word}" for _, word in params)
        yield f"static inline int {name}_call(const struct {name}_args *args) {{"
        yield f"    return {name}({words});"
        yield "}"


def _more(interface: Interface, variants: Sequence[Variant]) -> Iterator[str]:
    name = interface.name
    if len(variants) > 1:
        levels = ", ".join(f"{n} {v.target.isa}" for n, v in enumerate(variants, 1))
        yield ""
        yield f"/* Later calls use code of this level: {levels}; 0 the highest that there is. */"
        yield f"int {name}_use_level(int level);"
    if interface.threads != "none":
        yield filled({"callback": "callback.h", "pool": "pooled.h"}[interface.threads], NAME=name)


def wrapper_hpp(interface: Interface) -> str:
    """Returns a header for C++11: a class that holds weights and arena, and throws."""
    names: dict[str, object] = {"NAME": interface.name, "UPPER": interface.upper}
    given = [p for p in parameters(interface) if p[1] not in ("weights", "arena")]
    handed = [word for _, word in given]
    members, begin, private = f"    {interface.name}_function() {{}}", "", ""
    if not interface.linked_weights:
        handed.append("weights_")
        members = filled("weights.hpp", **names)
        private = "    const void *weights_;\n"
    if not interface.static_memory:
        handed.append("arena()")
        private += filled("arena.hpp", **names)
        begin = f"        grow({interface.upper}_ARENA_BYTES);"
        if interface.sizes:
            arguments = ", ".join([*interface.size_names, "&memory"])
            begin = (
                f"        {interface.name}_memory memory;\n"
                f"        check({interface.name}_sizes({arguments}));\n"
                "        grow(memory.arena_bytes);"
            )
    return filled(
        "wrapper.hpp",
        **names,
        MEMBERS=members,
        SIGNATURE=", ".join(type + word for type, word in given),
        BEGIN=begin,
        HANDED=", ".join(handed),
        PRIVATE=private,
    )
