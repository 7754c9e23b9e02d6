"""Compiled functions as bundles: objects that C programs link, without Python.

A bundle is made from the module, which is compiled anew for each level: nothing of the machine at
hand enters it, so that the same module gives the same bytes everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.bundle.files import cmake_text, example_data, example_text, module_files
from ..codegen.bundle.header import header_text, wrapper_hpp
from ..codegen.bundle.interface import THREADS, Interface, interface_of
from ..codegen.bundle.objects import bundle_object, undefined_symbols
from ..codegen.bundle.wasm import is_wasm
from ..codegen.bundle.weights import Weights, weights_object, weights_of
from ..codegen.bundle.wheel import wheel, wheel_name
from ..codegen.bundle.wrapper import Variant
from ..codegen.c_source.entry import c_file
from ..codegen.target import ISA_LEVELS, X86_LEVELS, Target
from ..driver.pipeline import build
from ..ir.dataclass import dataclass
from ..ir.dims import evaluate, typical
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..ir.files import replace_file
from ..ir.graph.types import TensorType, Type, fields_of
from ..ir.program.analysis import size_table
from ..ir.size_table import Misfit
from .saved import read_calls, source_of

if TYPE_CHECKING:
    from ..driver.built import Built, Source
    from ..ir.graph.nodes import Module
    from ..tracer import Traced

CORES = 4
"""Cores for which parallel loops are cut, unless the user says how many."""


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """Options of a bundle; docs/bundles.md explains each."""

    targets: tuple[str, ...] = ()
    name: str = ""
    fat: bool = False
    static_memory: bool = False
    threads: str = "none"
    cores: int = CORES
    linked_weights: bool = False
    wheel: str = ""
    c: bool = False
    html: str = ""
    example: Sequence[Array] = ()

    @property
    def used_cores(self) -> int:
        """The cores that loops are cut for."""
        return 1 if self.threads == "none" and not self.c else self.cores

    def __post_init__(self) -> None:
        if self.threads not in THREADS:
            raise LoopwrightValueError(
                f"threads={self.threads!r} is unknown", hint=f"of {', '.join(THREADS)}"
            )
        if unknown := [t for t in self.targets if t not in ISA_LEVELS]:
            raise LoopwrightValueError(
                f"unknown target {unknown[0]!r}", hint=f"of {', '.join(ISA_LEVELS)}"
            )
        if self.wheel and (self.static_memory or self.linked_weights):
            raise LoopwrightValueError("a wheel has its own weights and memory: leave these out")
        if self.wheel and not re.fullmatch(r"\d+(\.\d+)*", self.wheel):
            raise LoopwrightValueError(
                f"wheel={self.wheel!r} must be numbers and dots", hint="wheel='1.0'"
            )
        if self.fat and self.targets:
            raise LoopwrightValueError("fat bundles are for all levels of x86-64: name no targets")
        if self.c and (self.fat or self.wheel or self.threads != "none"):
            raise LoopwrightValueError(
                "C is for one level, its compiler makes the threads, and wheels hold machine code",
                hint="compile the file with -fopenmp, and say for how many cores loops are cut",
            )
        if self.html not in ("", "inline", "fetch") or (self.html and "wasm32" not in self.targets):
            raise LoopwrightValueError(
                f"html={self.html!r} is for wasm32 only: a page has the weights 'inline', or they "
                "are a file to 'fetch'",
                hint="targets=['wasm32'], html='inline'",
            )
        for target in map(Target, self.targets):
            alone = self.threads == "none" and not (self.wheel or self.linked_weights)
            if is_wasm(target) and not (alone or self.c):
                raise UnsupportedError(
                    f"a module for {target.isa} is called by JavaScript, in one thread, which "
                    "hands over its weights",
                    hint="leave threads, wheels and linked weights out",
                )


def bundle(traced: Traced, built: Built, path: str | Path, given: Mapping[str, Any]) -> list[Path]:
    """Writes the bundle of a traced function; returns the folders with its files. ``given`` are
    the fields of ``BundleOptions`` that are not their defaults."""
    options, source = _options(given), built.source
    if source is None or not source.whole:
        raise UnsupportedError(
            f"{traced.name} cannot be compiled for other machines any more",
            hint="lower() it again: its weights were released",
        )
    if traced.is_checked or traced.returns_arguments:
        raise UnsupportedError(
            f"{traced.name} changes its arguments, checks their values in every call, or has "
            "results whose sizes its data decides, and cannot be bundled yet",
            hint="return new arrays of known sizes, and take arrays in the place of Python numbers",
        )
    main = source.module.main
    count = len(fields_of(main.body.result.type))
    outputs = tuple(main.attrs.get("outputs", map(str, range(count))))
    inputs = tuple(p.name for p in main.params)
    made = _Bundled(traced.name, source.module, inputs, outputs, partial(_built, source, options))
    return _bundle(made, Path(path), options)


def bundle_saved(file: Path, path: Path, given: Mapping[str, Any]) -> list[Path]:
    """Writes the bundle of a file that ``f.lower(...).save`` wrote, from its source; its schedules
    are used for the level that it was saved for. No code of the file is run.

    Raises LoopwrightValueError for a file that is damaged or holds no source.
    """
    module, schedules, _, extra = source_of(file)
    traced, _, inputs, outputs = read_calls(extra)
    options, saved_for = _options(given), str(extra.get("level", ""))

    def built(level: str) -> Built:
        cores = options.used_cores
        chosen = schedules if level == saved_for else {}
        target = Target(level, cores=cores)
        return build(
            module, target=target, threads=cores, taken={}, schedules=chosen, measure="never"
        )

    return _bundle(_Bundled(traced.name, module, inputs, outputs, built), path, options)


@dataclass(frozen=True, slots=True)
class _Bundled:
    """A module, the names of its arrays, and the function that compiles it for a level."""

    name: str
    module: Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    built: Callable[[str], Built]


def _options(given: Mapping[str, Any]) -> BundleOptions:
    names = [f.name for f in fields(BundleOptions)]
    if unknown := given.keys() - set(names):
        raise LoopwrightTypeError(
            f"bundle() has no option {min(unknown)!r}", hint=f"of {', '.join(names)}"
        )
    return BundleOptions(**given)


def _bundle(made: _Bundled, path: Path, options: BundleOptions) -> list[Path]:
    levels = X86_LEVELS if options.fat else options.targets or (Target.host().isa,)
    builds = {level: made.built(level) for level in levels}
    sets = [tuple(levels)] if options.fat else [(level,) for level in levels]
    results = _example(made.module, builds, options)
    folders: list[Path] = []
    for chosen in sets:
        folder = path if len(sets) == 1 else path / chosen[0]
        folder.mkdir(parents=True, exist_ok=True)
        variants = [_variant(builds[level]) for level in chosen]
        interface = interface_of(
            options.name or made.name,
            variants[0].program,
            made.inputs,
            made.outputs,
            options.threads,
            options.static_memory,
            options.linked_weights,
        )
        _write(folder, interface, variants, results, options)
        folders.append(folder)
    return folders


def _built(source: Source, options: BundleOptions, level: str) -> Built:
    """Returns the module compiled for a level, with nothing known of this machine."""
    cores, preferences = options.used_cores, source.preferences
    precision = "bf16" if preferences.rounds_factors else preferences.error_growth
    precision = "reproducible" if source.target.sums else precision
    return build(
        source.module,
        target=Target(level, cores=cores),
        log=source.log,
        threads=cores,
        precision="standard" if precision == 16.0 else precision,
        passes=source.passes,
        measure="never",
    )


def _variant(built: Built) -> Variant:
    if built.parts is None:
        raise UnsupportedError("the function is not made of kernels, so it cannot be bundled")
    return Variant(built.parts.program, dict(built.parts.kernels), built.parts.target)


def _example(
    module: Module, builds: Mapping[str, Built], options: BundleOptions
) -> tuple[list[Array], Mapping[str, int]]:
    """Returns operands and results of a call, computed by the highest level that runs here, and
    the values of sizes."""
    able = [b for b in builds.values() if b.parts and not b.parts.target.missing_here]
    run = able[-1] if able else build(module, measure="never")
    assert run.parts is not None
    sizes = {s.name: typical(s.expr) for s in run.parts.program.sizes}
    arrays = list(options.example) or [_random(p.type, sizes) for p in module.main.params]
    table = size_table(run.parts.program, 0)
    values = {} if table is None else table.values([a.shape for a in arrays])
    if isinstance(values, Misfit):
        raise LoopwrightValueError(f"the example does not fit: {values}")
    return [*arrays, *run.call(arrays)], values


def _random(type: Type, sizes: Mapping[str, int]) -> Array:
    """Returns numbers of a type, the same in every process; integers are 0 or 1, since they may be
    indices."""
    assert isinstance(type, TensorType)
    rng = np.random.default_rng(0)
    shape, dtype = [evaluate(s, sizes) for s in type.shape], type.dtype.numpy
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _write(
    folder: Path,
    interface: Interface,
    variants: Sequence[Variant],
    example: tuple[list[Array], Mapping[str, int]],
    options: BundleOptions,
) -> None:
    name = interface.name
    constants = [c.value for v in variants for c in v.program.constants if c.value is not None]
    weights: Weights = weights_of(constants)
    code, form, undefined = b"", "o", list[str]()
    if options.c:
        form, (text, undefined) = "c", c_file(interface, variants[0], weights)
    else:
        text = code = bundle_object(interface, variants, weights)
        undefined = undefined_symbols(code)
    arrays, sizes = example
    files: dict[str, bytes | str] = {
        f"{name}.{form}": text,
        f"{name}.weights.bin": weights.data,
        f"{name}.h": header_text(interface, variants, weights, undefined),
        f"{name}.example.bin": example_data(arrays),
    }
    if is_wasm(variants[0].target) and not options.c:
        files |= module_files(interface, variants, weights, example, code, options.html)
    else:
        level = variants[0].target if options.c else None
        files |= {
            f"{name}.hpp": wrapper_hpp(interface),
            f"{name}_example.c": example_text(interface, variants, weights, sizes),
            "CMakeLists.txt": cmake_text(interface, undefined, level),
        }
    for file, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        replace_file(folder / file, (data,))
    if version := options.wheel:
        data = wheel(interface, variants, weights, code, version)
        replace_file(folder / wheel_name(interface, version, variants[0].target), (data,))
    if interface.linked_weights:
        symbol, target = interface.weights_symbol, variants[0].target
        data = weights_object(weights, symbol, target)
        replace_file(folder / f"{name}.weights.o", (data,))
