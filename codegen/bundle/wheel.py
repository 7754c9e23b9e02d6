"""A bundle as a Python wheel that needs NumPy only: a shared object, its weights, and a module.

A relocatable object becomes a shared one by a linker: that of a C compiler, or of the package
``ziglang``, which links for every target.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ...ir.dims import substitute, symbol
from ...ir.errors import UnsupportedError
from ...ir.program.analysis import size_table
from ..target import Target
from .header import most
from .interface import CACHE_LINE, COperand, Interface, filled
from .weights import Weights
from .wrapper import STATUSES, Variant

_EPOCH = (1980, 1, 1, 0, 0, 0)


def linker(target: Target) -> list[str]:
    """Returns the command that links for a target. Raises UnsupportedError if there is none."""
    machine = target.level.architecture.name
    triple = "" if target.is_native else f"{machine}-linux-gnu"
    for name in [f"{triple}-gcc"] if triple else ["cc", "gcc", "clang"]:
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
    raise UnsupportedError(
        f"a wheel needs a linker for {target.isa}, and there is none",
        hint="pip install ziglang, or install a C compiler",
    )


def shared_object(code: bytes, target: Target) -> bytes:
    """Returns the shared object of a relocatable one. Raises UnsupportedError without a linker, and
    for what it says if it fails."""
    command = linker(target)
    with tempfile.TemporaryDirectory() as folder:
        made, out = Path(folder, "bundle.o"), Path(folder, "bundle.so")
        made.write_bytes(code)
        flags = ["-shared", "-s", "-Wl,--build-id=none", "-Wl,-soname,bundle.so", "-o", str(out)]
        done = subprocess.run(
            [*command, *flags, str(made), "-lm", "-lpthread"], capture_output=True, text=True
        )
        if done.returncode:
            raise UnsupportedError(
                f"{command[0]} cannot link the bundle: {done.stderr.strip():.300}"
            )
        return out.read_bytes()


def wheel_name(interface: Interface, version: str, target: Target) -> str:
    """Returns the name of the file, which says where it can be installed."""
    return f"{interface.name}-{version}-py3-none-linux_{target.level.architecture.name}.whl"


def wheel(
    interface: Interface,
    variants: Sequence[Variant],
    weights: Weights,
    code: bytes,
    version: str,
) -> bytes:
    """Returns the wheel of an object; ``code`` is relocatable."""
    name, target = interface.name, variants[0].target
    info = f"{name}-{version}.dist-info"
    tag = wheel_name(interface, version, target).removesuffix(".whl").partition("-py3")[2]
    levels = ", ".join(v.target.isa for v in variants)
    files = {
        f"{name}/__init__.py": module_text(interface, variants).encode(),
        f"{name}/bundle.so": shared_object(code, target),
        f"{name}/weights.bin": weights.data,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            f"Summary: {name}, compiled by Loopwright for {levels}\nRequires-Dist: numpy\n"
        ).encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: loopwright\nRoot-Is-Purelib: false\nTag: py3{tag}\n"
        ).encode(),
    }
    rows = [f"{file},sha256={_hash(data)},{len(data)}" for file, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for file, data in files.items():
            entry = zipfile.ZipInfo(file, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            made.writestr(entry, data)
    return archive.getvalue()


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def module_text(interface: Interface, variants: Sequence[Variant]) -> str:
    """Returns the Python module, whose function takes and returns arrays."""
    name, program = interface.name, variants[0].program
    table = size_table(program, 0)
    solution = {} if table is None else table.solution
    renamed = dict(zip([s.name for s in interface.sizes], interface.size_names, strict=True))
    names = [o.name for o in interface.inputs]
    lines: list[str] = []
    for n, operand in enumerate(interface.inputs):
        word, axes = operand.name, [f"d{n}_{axis}" for axis in range(len(operand.shape))]
        lines.append(f'    {word} = _given("{word}", {word}, "{_numpy(operand)}", {len(axes)})')
        if axes:
            lines.append(f"    {', '.join(axes)}, = {word}.shape")
    lines += [f"    {renamed[size]} = {expr}" for size, expr in solution.items()]
    for operand in interface.inputs:
        shape = _shape(operand, renamed)
        lines.append(f'    _same("{operand.name}", {operand.name}.shape, {shape})')
    for operand in interface.outputs:
        dtype, shape = _numpy(operand), _shape(operand, renamed)
        lines.append(f'    {operand.name} = _aligned({shape}, "{dtype}")')
    sizes = list(interface.size_names)
    arena = most([v.arena for v in variants])
    if arena is None:
        count = 2 + len(names) + sum(1 + len(o.shape) for o in interface.outputs)
        handed = ", ".join(f"ctypes.c_int64({s})" for s in sizes)
        lines += [
            f"    memory = (ctypes.c_int64 * {count})()",
            f"    _check(_call.{interface.name}_sizes({handed}, memory))",
        ]
    pointers = [f"_pointer({o.name})" for o in interface.operands]
    pointers += [f"ctypes.c_int64({s})" for s in sizes]
    needed = "memory[0]" if arena is None else str(max(arena, CACHE_LINE))
    pointers += ["_pointer(_weights)", f"_pointer(_arena({needed}))"]
    results = ", ".join(o.name for o in interface.outputs)
    lines += [f"    _check(_run({', '.join(pointers)}))", f"    return {results}", ""]
    head = filled(
        "wheel_module.txt",
        NAME=name,
        TEXTS=repr([text for _, text in STATUSES]),
        GIVEN=", ".join(names),
        RESULTS=_described(interface.outputs),
        OPERANDS=_described(interface.inputs),
    )
    return head + "\n".join(lines)


def _numpy(operand: COperand) -> str:
    """The name of a dtype that NumPy has itself."""
    return "uint16" if operand.dtype.name == "bfloat16" else operand.dtype.name


def _shape(operand: COperand, renamed: dict[str, str]) -> str:
    names = {old: symbol(new) for old, new in renamed.items()}
    return "(" + "".join(f"{substitute(size, names)}, " for size in operand.shape) + ")"


def _described(operands: Sequence[COperand]) -> str:
    return ", ".join(f"{o.name}: {o.shape_text}" for o in operands) or "nothing"
