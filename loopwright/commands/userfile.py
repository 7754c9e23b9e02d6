"""The user's program on the command line: ``FILE.py:FUNCTION`` and arguments for it, a model,
``MODEL.onnx``, or ``FILE.txt``, the text of a module.

Arguments come from, in this order,

1. ``--arg x=f32[1,3,224,224]`` (or without ``x=``: in the order of the parameters); with names for
   sizes (``x=f32[n,784]``) the code is for all of them, or for those in ``--arg n=1..4096``,
   A model needs it for inputs whose sizes it leaves open only,
2. ``FUNCTION_inputs`` in the file, or ``example_inputs`` for all its functions: a tuple of
   positional arguments, a dict by name, or a function that returns one of these. They may be arrays
   or specs such as ``lw.f32[64, 784]``,
3. specs that annotate the parameters: ``def FUNCTION(x: lw.f32[64, 784])``.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..doors.onnx_model import imported
from ..doors.saved import SavedFunction, load
from ..face.compiled_function import CompiledFunction
from ..face.module import CompiledModule, parse
from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, size_symbols, substitute, typical
from ..ir.errors import LoopwrightError
from ..ir.files import read_arrays, read_named
from ..tracer.core.argument_specs import Dim, DTypeSpec, Spec, parse_spec
from .usage import UsageError

WHERE = "FILE.py:FUNCTION"
"""Form of the argument that names a function; ``MODEL.onnx``, and ``FILE.txt``, the text of a
module, are others."""


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A user's function. ``compiled`` is what ``lw.compile`` made, ``plain`` the Python
    function."""

    name: str
    compiled: CompiledFunction
    plain: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def arrays(self, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments, with random values for every spec."""
        rng = np.random.default_rng(seed)
        values = tuple(filled(a, rng) for a in self.args)
        return values, {k: filled(v, rng) for k, v in self.kwargs.items()}


def add_function_arguments(parser: ArgumentParser, optional: bool = False) -> None:
    """Adds the arguments that name the function and its shapes."""
    parser.add_argument(
        "function",
        metavar=WHERE,
        nargs="?" if optional else None,
        help="a function in a Python file; MODEL.onnx; or FILE.txt, the text of a module",
    )
    parser.add_argument(
        "--precision",
        metavar="P",
        help="strict, standard, bf16, reproducible or a number: LOOPWRIGHT_PRECISION",
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=SPEC",
        help="shape and dtype of an argument, as in x=f32[64,784]; again for each. All sizes of a "
        "range: --arg x=f32[n,784] --arg n=1..4096. Without: FUNCTION_inputs or example_inputs in "
        "the file",
    )


def load_function(
    where: str, specs: Sequence[str], *, log: str | None = None, threads: int | None = None
) -> UserFunction:
    """Imports the file and returns the function with its arguments. Raises UsageError if something
    is missing.

    ``log`` and ``threads`` take the place of those the function was compiled with.
    """
    if Path(where).suffix == ".onnx":
        return load_onnx(Path(where), dict(map(_named_spec, specs)), log=log, threads=threads)
    if Path(where).suffix == ".txt":
        return _load_module(Path(where), specs, log, threads)
    file, colon, name = where.rpartition(":")
    if not colon:
        file, name = where, ""
    module = _import(Path(file))
    function = getattr(module, name, None) if name else None
    if function is None or not callable(function):
        raise UsageError(_not_there(module, file, name))
    compiled = function if isinstance(function, CompiledFunction) else CompiledFunction(function)
    if log is not None:
        compiled.log = Path(log)
    if threads is not None:
        compiled.threads = _checked(threads)
    plain = compiled.function
    args, kwargs = _arguments(module, name, plain, specs)
    bound = inspect.signature(plain).bind(*args, **kwargs).arguments
    symbolic = {n: s for n, s in bound.items() if isinstance(s, Spec) and size_symbols(*s.shape)}
    if symbolic:
        options: dict[str, Any] = {**compiled.options(), "threads": compiled.threads}
        options["dynamic"] = symbolic
        compiled = CompiledFunction(plain, **options)
    return UserFunction(f"{file}:{name}", compiled, plain, args, kwargs)


def load_onnx(
    path: Path, shapes: Mapping[str, Any], *, log: str | None = None, threads: int | None = None
) -> UserFunction:
    """Returns the model of a file. ``shapes`` has shapes or specs of inputs by name.

    Inputs of integers are zeros and ones where random values are asked for: they may be indices
    into any table.
    """
    threads = None if threads is None else _checked(threads)
    try:
        compiled = imported(path, shapes, log=log, threads=threads)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    rng = np.random.default_rng(0)
    args = [
        rng.integers(0, 2, spec.shape).astype(spec.dtype) if spec.dtype.kind in "iu" else spec
        for spec in compiled.specs
    ]
    return UserFunction(str(path), compiled, compiled.function, tuple(args), {})


def load_saved(
    file: str, specs: Sequence[str], log: str | None, threads: int | None
) -> SavedFunction:
    """Returns the function that ``loopwright save`` wrote."""
    if specs or log is not None:
        raise UsageError(f"{file} is compiled: neither --arg nor --log can change it")
    try:
        return load(file, threads=None if threads is None else _checked(threads))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error


def _named_spec(text: str) -> tuple[str, Spec]:
    """Returns the name and the spec of an ``--arg`` for a model."""
    name, _, spec = text.rpartition("=")
    if not name:
        raise UsageError(f"--arg {text}: a model's inputs have names; write it as NAME={text}")
    return name, _parsed(text, spec)


def _parsed(text: str, spec: str) -> Spec:
    try:
        return parse_spec(spec)
    except LoopwrightError as error:
        raise UsageError(f"--arg {text}: {error.message}; write it as x=f32[64,784]") from error


def _load_module(
    path: Path, specs: Sequence[str], log: str | None, threads: int | None
) -> UserFunction:
    """Returns the module whose text is in a file; its constants are in the ``.npz`` of that
    name."""
    if specs:
        raise UsageError(f"--arg {specs[0]}: {path} says itself what its main takes")
    try:
        text = read_named(path).decode()
        arrays = path.with_suffix(".npz")
        constants = read_arrays(arrays) if arrays.exists() else None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not (constants is None or isinstance(constants, dict)):
        raise UsageError(f"{arrays} cannot be read: it is one array, not an archive of them")
    module = parse(text, constants=constants, file=str(path))
    threads = None if threads is None else _checked(threads)
    compiled = CompiledModule(module, path.stem, log=log, threads=threads)
    return UserFunction(str(path), compiled, compiled.function, compiled.specs, {})


def _checked(threads: int) -> int:
    if threads < 1:
        raise UsageError(f"--threads {threads}: there must be at least one")
    return threads


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        hint = f"; write it as {WHERE}" if path.suffix != ".py" else ""
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], 1)
        hint = f"; did you mean {near[0]}?" if near and not hint else hint
        raise UsageError(f"there is no file {path}{hint}")
    name = path.stem if path.stem not in sys.modules else f"_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # As if the file were run: its neighbours can be imported, dataclasses find their module.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
        at = f"{path}:{lines[-1]}" if lines else str(path)
        raise UsageError(
            f"{at} fails when it is imported: {type(error).__name__}: {error}"
        ) from error
    return module


def _not_there(module: ModuleType, file: str, name: str) -> str:
    names = [
        n
        for n, value in vars(module).items()
        if not n.startswith("_")
        and isinstance(value, CompiledFunction | FunctionType)
        and getattr(value, "__module__", None) == module.__name__
    ]
    if name and hasattr(module, name):
        what = f"{name} in {file} is not a function"
    elif name:
        close = get_close_matches(name, names, 1)
        what = f"there is no {name} in {file}" + (f"; did you mean {close[0]}?" if close else "")
    else:
        what = f"which function of {file}?"
    return f"{what} (functions there: {', '.join(names) or 'none'})"


def _arguments(
    module: ModuleType, name: str, plain: Callable[..., Any], specs: Sequence[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = _from_file(module, name)
    if not args and not kwargs:
        kwargs = _from_annotations(plain)
    if not specs and not args and not kwargs and _needs_arguments(plain):
        first = next(iter(inspect.signature(plain).parameters))
        raise UsageError(
            f"{name}{inspect.signature(plain)} needs arguments: give --arg '{first}=f32[64,784]', "
            f"or a function {name}_inputs() in the file that returns a tuple of them"
        )
    if not specs:
        return args, kwargs
    return _from_specs(name, plain, specs, args, kwargs)


def _from_file(module: ModuleType, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for source in (f"{name}_inputs", "example_inputs"):
        given = getattr(module, source, None)
        if given is None:
            continue
        if callable(given):
            given = given()
        if isinstance(given, Mapping):
            return (), dict(given)
        if isinstance(given, tuple | list):
            return tuple(given), {}
        raise UsageError(
            f"{source} gives a {type(given).__name__}; it has to be a tuple of arguments or a dict"
        )
    return (), {}


def _from_annotations(plain: Callable[..., Any]) -> dict[str, Any]:
    """Returns the specs among the annotations of parameters."""
    try:
        parameters = inspect.signature(plain, eval_str=True).parameters
    except Exception:  # text in quotes is the user's, and need not have a value
        parameters = inspect.signature(plain).parameters
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    return {name: value for name, value in annotations.items() if isinstance(value, Spec)}


def _needs_arguments(plain: Callable[..., Any]) -> bool:
    parameters = inspect.signature(plain).parameters.values()
    return any(
        p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters
    )


def _from_specs(
    name: str,
    plain: Callable[..., Any],
    specs: Sequence[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = inspect.signature(plain)
    values = dict(zip(signature.parameters, args)) | kwargs
    unnamed = iter(signature.parameters)
    ranges, specs = _ranges(specs)
    for text in specs:
        parameter, equals, spec = text.partition("=")
        if not equals:
            parameter, spec = next(unnamed, ""), text
        if parameter not in signature.parameters:
            raise UsageError(
                f"--arg {text}: {name}{signature} has no "
                + (f"parameter {parameter!r}" if parameter else "parameter left for it")
            )
        parsed = _parsed(text, spec)
        shape = tuple(substitute(s, ranges) for s in parsed.shape)
        values[parameter] = replace(parsed, type=replace(parsed.type, shape=shape))
    try:
        bound = signature.bind(**values)
    except TypeError as error:
        raise UsageError(f"{name}{signature}: {error}; give one --arg for each") from error
    return bound.args, dict(bound.kwargs)


_RANGE = re.compile(r"(\w+)=(\d+)\.\.(\d+)")


def _ranges(specs: Sequence[str]) -> tuple[dict[str, IntExpr], list[str]]:
    """Returns the sizes whose ranges are given (``n=1..4096``), and the other arguments."""
    ranges: dict[str, IntExpr] = {}
    others: list[str] = []
    for text in specs:
        match = _RANGE.fullmatch(text)
        if match is None:
            others.append(text)
            continue
        try:
            ranges[match[1]] = Dim(match[1], min=int(match[2]), max=int(match[3]))
        except LoopwrightError as error:
            raise UsageError(f"--arg {text}: {error.message}") from error
    return ranges, others


def filled(value: Any, rng: np.random.Generator) -> Any:
    """Returns random values for a spec, of likely values of its sizes where they are symbolic, and
    other arguments as they are."""
    if isinstance(value, DTypeSpec):
        value = value[()]
    if not isinstance(value, Spec):
        return value
    sizes = [typical(s) for s in value.shape]
    if value.dtype.kind == "f":
        return rng.standard_normal(sizes).astype(value.dtype)
    return rng.integers(0, 2 if value.dtype.kind == "b" else 100, sizes).astype(value.dtype)
