"""Measure the error of an elementary function against an oracle, in units in the last place.

    python -m tools.elementary.sweep --function exp --step 1

runs every float32 bit pattern (``--step 65537``: every 65,537th) through the vector code and prints
the greatest error and where it is. float32 is judged by NumPy's float64 functions (erf:
``math.erf``), float64 by mpmath on a sample.

The error is |computed - true| / ulp(true), with the true result unrounded; a result that should be
NaN, infinite or a zero of one sign and is not counts as an infinite error.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from loopwright.codegen.elementary import BINARY, function
from loopwright.codegen.elementary.emitter import ElementaryFunction
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import LoadedObject, load_object
from loopwright.codegen.target import Target

from .oracle import exact_errors, oracle, ulp_errors

__all__ = ["Worst", "bit_patterns", "compile_function", "sweep", "worst_of"]

Array = np.ndarray[Any, Any]
_LLVM = {"float32": "float", "float64": "double"}


def loop_text(f: ElementaryFunction, dtype: str, lanes: int, arity: int) -> str:
    """A module with ``void @run(ptr x[, ptr y], ptr out, i64 n)``; n is a multiple of ``lanes``."""
    scalar = _LLVM.get(dtype) or "i" + dtype.strip("uint")
    vector = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
    align = np.dtype(dtype).itemsize
    names = ("x", "y")[:arity]
    lines = [*f.declarations, f.text]
    lines += [
        f"define void @run({', '.join(f'ptr %{n}' for n in names)}, ptr %out, i64 %n) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
    ]
    for n in names:
        lines.append(f"  %{n}p = getelementptr {scalar}, ptr %{n}, i64 %i")
        lines.append(f"  %{n}v = load {vector}, ptr %{n}p, align {align}")
    lines += [
        f"  %r = call {vector} @{f.symbol}({', '.join(f'{vector} %{n}v' for n in names)})",
        f"  %op = getelementptr {scalar}, ptr %out, i64 %i",
        f"  store {vector} %r, ptr %op, align {align}",
        f"  %next = add i64 %i, {lanes}",
        "  %more = icmp ult i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A loop over one elementary function, ready to be called on arrays."""

    dtype: str
    lanes: int
    owner: LoadedObject
    call: Any

    def run(self, *operands: Array, out: Array) -> None:
        """Fills ``out``, whose size is a multiple of ``lanes``, from contiguous operands."""
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*operands, out)]
        self.call(*pointers, ctypes.c_int64(out.size))

    def __call__(self, *operands: Array) -> Array:
        """The function of equally shaped one-dimensional arrays of its dtype."""
        size = operands[0].size
        padded = (
            [np.resize(x, -(-size // self.lanes) * self.lanes) for x in operands] if size else []
        )
        if not padded:
            return np.empty(0, self.dtype)
        out = np.empty_like(padded[0])
        self.run(*padded, out=out)
        return out[:size]


def compile_function(name: str, dtype: str, target: Target, lanes: int | None = None) -> Compiled:
    """Machine code of one function in a plain loop over native vectors."""
    lanes = lanes or target.lanes(np.dtype(dtype).itemsize)
    arity = 2 if name in BINARY else 1
    text = loop_text(function(name, dtype, lanes, target), dtype, lanes, arity)
    loaded = load_object(compile_object(text, target))
    types = [ctypes.c_void_p] * (arity + 1) + [ctypes.c_int64]
    return Compiled(dtype, lanes, loaded, loaded.function("run", *types))


@dataclass(frozen=True, slots=True)
class Worst:
    """The greatest error of a sweep and the operands it was met at."""

    error: float
    operands: tuple[float, ...]
    got: float
    true: float
    count: int

    def __str__(self) -> str:
        operands = ", ".join(f"{x!r} ({float(x).hex()})" for x in self.operands)
        results = f"{self.got!r}, true {self.true!r}"
        return f"{self.error:.4f} ulp at {operands}: {results}; {self.count} points"


def worst_of(code: Compiled, name: str, *operands: Array) -> Worst:
    """The greatest error on these operands, in ulps of their dtype."""
    got = code(*operands)
    if code.dtype == "float64":
        errors = exact_errors(name, got, *operands)
        true = np.full_like(got, np.nan)
    else:
        with np.errstate(all="ignore"):
            true = oracle(name)(*(x.astype(np.float64) for x in operands))
            errors = ulp_errors(got, true)
    i = int(np.argmax(errors))
    where = tuple(float(x[i]) for x in operands)
    return Worst(float(errors[i]), where, float(got[i]), float(true[i]), got.size)


def bit_patterns(step: int, chunk: int = 1 << 22) -> Iterator[Array]:
    """Every ``step``-th float32, in chunks."""
    for start in range(0, 1 << 32, step * chunk):
        stop = min(start + step * chunk, 1 << 32)
        yield np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def sweep(name: str, target: Target, step: int = 65537) -> Worst:
    """The greatest error of a float32 function of one operand over the whole range, in steps."""
    code = compile_function(name, "float32", target)
    each = [worst_of(code, name, x) for x in bit_patterns(step)]
    worst = max(each, key=lambda w: w.error)
    return Worst(worst.error, worst.operands, worst.got, worst.true, sum(w.count for w in each))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.elementary.sweep")
    parser.add_argument("--function", required=True, help="name, or several with commas")
    parser.add_argument("--step", type=int, default=65537, help="distance of the bit patterns")
    parser.add_argument("--isa", default="", help="ISA level (default: this machine's)")
    options = parser.parse_args(arguments)
    target = Target.host().with_isa(options.isa or Target.host().isa)
    for name in options.function.split(","):
        sys.stdout.write(f"{name:10} {target.isa}: {sweep(name, target, options.step)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
