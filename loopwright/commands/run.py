"""``loopwright run``: a model or a function on arrays of files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..doors.onnx_model import input_names
from ..face.module import CompiledModule
from ..ir.errors import printable
from ..ir.files import array_bytes, read_arrays, replace_file, write_arrays
from ..text import table
from .log_files import existing_log
from .usage import UsageError
from .userfile import UserFunction, add_function_arguments, load_function, load_onnx, load_saved

HELP = "run a model on arrays of files"
DESCRIPTION = (
    "Compile a model or a function, call it with arrays of .npy files, and keep the results."
)
EXAMPLES = """\
examples:
  loopwright run model.onnx --input x.npy --output y.npy
  loopwright run bert.onnx --input input_ids=ids.npy --input attention_mask=mask.npy \\
      --output logits=logits.npy
  loopwright run bert.onnx --input inputs.npz --output outputs.npz        arrays by name
  loopwright run net.py:predict --input x.npy                             prints what comes out
  loopwright run net.lw --input x.npy                                     saved by loopwright save

Inputs without a name are taken in order; so are outputs. Sizes that a model leaves open are those
of the arrays.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``run``."""
    add_function_arguments(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an array, .npy, or several by name, .npz; again for each",
    )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="where to write a result, .npy, or all of them, .npz; again for each",
    )
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log = None if args.log is None else str(existing_log(args.log))
    in_order, by_name = _inputs(args.input)
    path = Path(args.function)
    if path.suffix == ".lw":
        saved = load_saved(args.function, args.arg, log, args.threads)
        results = saved.run(_by_name(saved.name, saved.inputs, in_order, by_name))
        _write(results, args.output)
        print(_table(results))
        return 0
    if path.suffix == ".onnx":
        if args.arg:
            raise UsageError("--arg: the sizes are those of the arrays that --input gives")
        user = _model(path, in_order, by_name, log, args.threads)
    else:
        user = load_function(args.function, args.arg, log=log, threads=args.threads)
    results = _results(user, in_order, by_name)
    _write(results, args.output)
    print(_table(results))
    return 0


def _table(results: Mapping[str, Any]) -> str:
    return table(("", "type", "least", "mean", "greatest"), [_row(*r) for r in results.items()])


def _inputs(given: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arrays without a name, in order, and those with one."""
    in_order: list[Any] = []
    by_name: dict[str, Any] = {}
    for text in given:
        name, file = _named(text)
        loaded = _read(file)
        if isinstance(loaded, Mapping):
            if name:
                raise UsageError(f"--input {text}: {file} holds several arrays, which have names")
            by_name.update(loaded)
        elif name:
            by_name[name] = loaded
        else:
            in_order.append(loaded)
    return in_order, by_name


def _named(text: str) -> tuple[str, str]:
    """Returns the name, empty if there is none, and the file of ``[NAME=]FILE``."""
    name, _, file = text.rpartition("=")
    return ("", text) if Path(text).exists() else (name, file)


def _read(file: str) -> Any:
    """Returns the array of a file, or its arrays by name. Nothing in it is unpickled."""
    try:
        return read_arrays(file)
    except OSError as error:
        raise UsageError(f"--input {file} cannot be read: {error.strerror or error}") from error


def _model(
    path: Path,
    in_order: list[Any],
    by_name: Mapping[str, Any],
    log: str | None,
    threads: int | None,
) -> UserFunction:
    """Returns the model with the sizes of the arrays; those without a name become named ones."""
    try:
        names = [name for name in input_names(path) if name not in by_name]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(in_order) > len(names):
        raise UsageError(f"{path} has no more inputs than {', '.join(names) or 'those with names'}")
    shapes = {name: array.shape for name, array in by_name.items()}
    shapes |= {name: array.shape for name, array in zip(names, in_order, strict=False)}
    return load_onnx(path, shapes, log=log, threads=threads)


def _results(user: UserFunction, in_order: list[Any], by_name: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the results by name, or by number."""
    compiled = user.compiled
    if isinstance(compiled, CompiledModule):
        return compiled.run(_by_name(user.name, compiled.inputs, in_order, by_name))
    if in_order or by_name:
        outcome = compiled(*in_order, **by_name)
    else:
        positional, named = user.arrays()
        outcome = compiled(*positional, **named)
    if isinstance(outcome, Mapping):
        return dict(outcome)
    many = isinstance(outcome, tuple | list)
    return {str(number): each for number, each in enumerate(outcome if many else (outcome,))}


def _by_name(
    function: str, inputs: Sequence[str], in_order: list[Any], by_name: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns all arrays by name; those without one are the other inputs, in order."""
    rest = [name for name in inputs if name not in by_name]
    if len(in_order) != len(rest):
        raise UsageError(
            f"{function} takes {', '.join(inputs) or 'nothing'}; give one --input "
            f"for each of {', '.join(rest) or 'them'}"
        )
    return {**by_name, **dict(zip(rest, in_order, strict=True))}


def _write(results: Mapping[str, Any], given: Sequence[str]) -> None:
    rest = list(results)
    for text in given:
        name, file = text.rpartition("=")[::2]
        path = Path(file)
        if not path.parent.is_dir():
            raise UsageError(f"--output {file}: there is no folder {path.parent}")
        if path.suffix == ".npz":
            write_arrays(path, {name: np.asarray(value) for name, value in results.items()})
            continue
        if name and name not in results:
            raise UsageError(f"--output {text}: the results are {', '.join(results)}")
        if not name and not rest:
            raise UsageError(f"--output {file}: there are no more results than {len(results)}")
        name = name or rest[0]
        rest = [each for each in rest if each != name]
        replace_file(path, (array_bytes(np.asarray(results[name])),))


def _row(name: str, value: Any) -> tuple[str, ...]:
    array, name = np.asarray(value), printable(name).replace("\n", "\\n")
    kind = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    if not array.size:
        return name, kind, "", "", ""
    numbers = (array.min(), array.mean(dtype=np.float64), array.max())
    return name, kind, *(f"{float(number):.6g}" for number in numbers)
