"""Loopwright compiles plain NumPy functions to machine code tuned for the machine it runs on.

>>> import numpy as np
>>> import loopwright as lw
>>> @lw.compile
... def layer(x, w, b):
...     return np.maximum(x @ w + b, 0)
>>> layer(np.ones((2, 3), np.float32), np.ones((3, 1), np.float32), np.float32(-1))
array([[2.],
       [2.]], dtype=float32)

``compile`` makes a function fast; ``f32[64, 784]`` and its like describe arguments without values,
``Dim`` sizes of which one compile serves all;
``xp`` is the Array API, ``nn`` what neural networks need besides; ``with
log(...):`` says which tuning log counts; ``schedule`` and ``sketch_rule`` are for those who
schedule kernels by hand. ``parse``, ``ModuleBuilder`` and ``build`` compile programs that are no
Python functions, ``from_onnx`` and ``from_torch`` compile models. ``load`` returns
what ``f.lower(...).save`` wrote. ``cond``, ``switch``, ``while_loop``, ``fori_loop``, ``scan``,
``map`` and ``function`` are control flow on values; ``data`` makes classes algebraic data types,
which ``match`` tells apart; ``at`` changes elements of copies. ``extern``
lets compiled functions call others that are not; ``prim`` functions are written as tensor
expressions, with ``te``. ``random`` makes random numbers from keys.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import requirements as requirements  # first: older dependencies are refused there
from .face.background_options import Background
from .face.compile import CacheInfo, Compiled, Lowered, compile
from .face.compiled_function import CompiledFunction
from .face.log_context import log
from .ir.errors import (
    FrozenWarning,
    InternalError,
    LoopwrightError,
    LoopwrightIndexError,
    LoopwrightMemoryError,
    LoopwrightOSError,
    LoopwrightOverflowError,
    LoopwrightTypeError,
    LoopwrightValueError,
    RecompilationWarning,
    RefusedFileWarning,
    UnsupportedError,
)
from .ir.graph.nodes import Module
from .ir.pass_context import PassContext
from .tracer import SPEC_DTYPES, Spec, Traced, parse_spec
from .tracer.core.argument_specs import Dim
from .tracer.core.argument_specs import Dim as symbol
from .tracer.core.dispatch import method
from .tracer.core.pytree import register as register_pytree

if TYPE_CHECKING:
    from . import debug, optim, random, schedule, xp
    from .autotune.space.rules.user import sketch_rule
    from .autotune.space.sketch import Sketch
    from .contracts import TooSlowError, assert_faster_than
    from .debug.gradient_checks import check_grads
    from .decoding.language_model import load_language_model
    from .doors.onnx_model import from_onnx
    from .doors.saved import SavedFunction, load
    from .doors.torch_model import from_torch
    from .doors.weight_files import load_weights
    from .face.module import CompiledModule, build, parse
    from .face.module_builder import ModuleBuilder
    from .face.transforms import (
        checkpoint,
        custom_jvp,
        custom_vjp,
        grad,
        hessian,
        hvp,
        jacobian,
        jvp,
        linearize,
        stop_gradient,
        value_and_grad,
        vjp,
    )
    from .face.vmap import vmap
    from .quantise.quantize import quantize
    from .quantise.ranges import Scheme
    from .tracer import nn
    from .tracer import tensor_expressions as te
    from .tracer.capture.matching import match
    from .tracer.control import cond, fori_loop, function, map, scan, switch, while_loop
    from .tracer.control.references import ref
    from .tracer.core.argument_specs import bf16
    from .tracer.data import data
    from .tracer.extern import extern
    from .tracer.language.run import as_function
    from .tracer.numpy.data_sizes import argwhere, flatnonzero, nonzero, unique
    from .tracer.numpy.element_updates import at
    from .tracer.prim import prim
    from .tracer.transforms.folding import fold

__version__ = "0.1.0"

f16, f32, f64 = (SPEC_DTYPES[name] for name in ("f16", "f32", "f64"))
i8, i16, i32, i64 = (SPEC_DTYPES[name] for name in ("i8", "i16", "i32", "i64"))
u8, u16, u32, u64 = (SPEC_DTYPES[name] for name in ("u8", "u16", "u32", "u64"))
c64, c128 = SPEC_DTYPES["c64"], SPEC_DTYPES["c128"]
bool_ = SPEC_DTYPES["bool_"]

__all__ = [
    "Background",
    "CacheInfo",
    "Compiled",
    "CompiledFunction",
    "CompiledModule",
    "Dim",
    "FrozenWarning",
    "RecompilationWarning",
    "RefusedFileWarning",
    "InternalError",
    "LoopwrightError",
    "LoopwrightIndexError",
    "LoopwrightMemoryError",
    "LoopwrightOSError",
    "LoopwrightOverflowError",
    "LoopwrightTypeError",
    "LoopwrightValueError",
    "Lowered",
    "Module",
    "ModuleBuilder",
    "PassContext",
    "SavedFunction",
    "Scheme",
    "Sketch",
    "Spec",
    "TooSlowError",
    "Traced",
    "UnsupportedError",
    "bool_",
    "argwhere",
    "as_function",
    "assert_faster_than",
    "c128",
    "c64",
    "at",
    "bf16",
    "build",
    "compile",
    "cond",
    "data",
    "debug",
    "extern",
    "f16",
    "f32",
    "f64",
    "flatnonzero",
    "fold",
    "fori_loop",
    "from_onnx",
    "from_torch",
    "function",
    "i16",
    "i32",
    "i64",
    "i8",
    "load",
    "load_language_model",
    "load_weights",
    "log",
    "map",
    "match",
    "nn",
    "nonzero",
    "parse",
    "parse_spec",
    "prim",
    "quantize",
    "optim",
    "random",
    "ref",
    "register_pytree",
    "scan",
    "schedule",
    "sketch_rule",
    "switch",
    "symbol",
    "te",
    "u16",
    "u32",
    "u64",
    "u8",
    "unique",
    "check_grads",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "linearize",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "while_loop",
    "xp",
]

_LATE = {
    name: module
    for module, names in {
        ".autotune.space.rules.user": "sketch_rule",
        ".autotune.space.sketch": "Sketch",
        ".contracts": "TooSlowError assert_faster_than",
        ".face.module": "CompiledModule build parse",
        ".face.module_builder": "ModuleBuilder",
        ".doors.onnx_model": "from_onnx",
        ".doors.saved": "SavedFunction load",
        ".doors.torch_model": "from_torch",
        ".decoding.language_model": "load_language_model",
        ".doors.weight_files": "load_weights",
        ".tracer.control": "cond fori_loop function map scan switch while_loop",
        ".tracer.capture.matching": "match",
        ".tracer.control.references": "ref",
        ".tracer.data": "data",
        ".tracer.language.run": "as_function",
        ".tracer.transforms.folding": "fold",
        ".tracer.extern": "extern",
        ".tracer.prim": "prim",
        ".tracer.numpy.data_sizes": "argwhere flatnonzero nonzero unique",
        ".tracer.core.argument_specs": "bf16",
        ".tracer.numpy.element_updates": "at",
        ".debug.gradient_checks": "check_grads",
        ".face.transforms": "checkpoint custom_jvp custom_vjp grad hessian hvp jacobian jvp "
        "linearize stop_gradient value_and_grad vjp",
        ".face.vmap": "vmap",
        ".quantise.quantize": "quantize",
        ".quantise.ranges": "Scheme",
    }.items()
    for name in names.split()
}
_LATE_MODULES = {n: f".{n}" for n in ("debug", "optim", "random", "schedule", "xp")} | {
    "nn": ".tracer.nn",
    "te": ".tracer.tensor_expressions",
}
"""Names that are imported at their first use, and their modules: few programs need them, and
loading them takes as long as loading everything else."""


def __getattr__(name: str) -> Any:
    place = _LATE_MODULES.get(name) or _LATE.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(place, __name__)
    return module if name in _LATE_MODULES else getattr(module, name)


@method("__array_namespace__")
def _namespace(_x: Any) -> Any:
    return __getattr__("xp")  # a layer above that of traced arrays


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE, *_LATE_MODULES})


requirements.loaded()
