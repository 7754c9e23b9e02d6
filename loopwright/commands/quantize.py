"""``loopwright quantize``: a model on bytes, by samples of what it is called with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..face.module import CompiledModule
from ..ir.dtype import Array
from ..ir.files import read_arrays
from ..quantise.quantize import quantize
from ..quantise.ranges import Scheme
from .usage import UsageError
from .userfile import add_function_arguments, load_function

HELP = "make a float model one on bytes"
DESCRIPTION = (
    "Learn the ranges of a model's values from samples, multiply bytes instead of floats, and "
    "write a file for lw.load."
)
EXAMPLES = """\
examples:
  loopwright quantize model.onnx --samples data.npz -o model.lw
  loopwright quantize model.onnx --samples data.npz -o model.lw --error 0.02 --report report.html
  loopwright quantize net.py:predict --samples x.npy -o net.lw --ranges kl --smooth 0.5
  loopwright quantize model.onnx --samples data.npz -o model.lw --profile profile.json
  loopwright quantize model.onnx --samples data.npz -o model.lw --weights-only 4 --group 64

An array of samples has one more axis than the argument, in front. A .npz has one for each argument,
by its name.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``quantize``."""
    add_function_arguments(parser)
    parser.add_argument(
        "--samples", required=True, metavar="FILE", help="arrays of samples, .npz or .npy"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE.lw", help="the file to write"
    )
    parser.add_argument(
        "--ranges", default="mse", metavar="WAY", help="minmax, percentile, mse or kl (mse)"
    )
    parser.add_argument("--smooth", type=float, metavar="X", help="move outliers into weights, 0.5")
    parser.add_argument("--symmetric", action="store_true", help="ranges alike on both sides")
    parser.add_argument("--power-of-two", action="store_true", help="scales that are powers of two")
    parser.add_argument(
        "--error",
        type=float,
        metavar="X",
        help="most that results may differ, a part of their norm: the rest stays float",
    )
    parser.add_argument(
        "--weights-only", type=int, choices=(4, 8), help="leave values float: bits of a weight"
    )
    parser.add_argument("--group", type=int, default=32, help="weights that share a scale (32)")
    parser.add_argument("--report", metavar="FILE.html", help="write what was done as a page")
    parser.add_argument("--profile", metavar="FILE.json", help="write what was observed")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    for path in filter(None, (args.output, args.report, args.profile)):
        if not Path(path).parent.is_dir():
            raise UsageError(f"{path}: there is no folder {Path(path).parent}")
    user = load_function(args.function, args.arg, threads=args.threads)
    arrays = read_arrays(Path(args.samples))
    named = arrays if isinstance(arrays, dict) else {"": arrays}
    compiled = user.compiled
    if isinstance(compiled, CompiledModule):
        samples = _samples(named, compiled.inputs, args.samples)
    else:
        samples = _samples(named, tuple(named), args.samples)
    scheme = Scheme(
        ranges=args.ranges,
        smooth=args.smooth,
        symmetric=args.symmetric,
        power_of_two=args.power_of_two,
        weights_only=args.weights_only,
        group=args.group,
    )
    made = quantize(compiled, samples, scheme=scheme, error=args.error)
    try:
        made.lower().save(args.output)
        if args.report:
            made.report.save(args.report)
        if args.profile:
            made.observed.save(args.profile)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error
    print(made.report)
    print(f"{args.output}: written")
    return 0


def _samples(arrays: dict[str, Array], inputs: Sequence[str], file: str) -> list[tuple[Any, ...]]:
    """Returns the arrays of each sample, in the order of the arguments."""
    if len(arrays) == len(inputs) == 1:
        arrays = dict(zip(inputs, arrays.values(), strict=True))
    if missing := set(inputs) - arrays.keys():
        raise UsageError(f"{file} has no array {min(missing)!r}; it has {', '.join(arrays)}")
    counts = {name: len(arrays[name]) if np.ndim(arrays[name]) else 0 for name in inputs}
    if len(set(counts.values())) != 1:
        raise UsageError(f"{file} has different numbers of samples: {counts}")
    return [tuple(arrays[n][k] for n in inputs) for k in range(counts[inputs[0]])]
