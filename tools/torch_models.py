"""Counts which architectures of transformers and timm run right, compiled in several ways.

::

    python -m tools.torch_models transformers [NAME ...] [--every 10] [--ways train,generate]
    python -m tools.torch_models timm [NAME ...] [--every 10] [--ways compile,export,onnx]

Each architecture gets a process of its own, random weights and sizes as small as its configuration
lets them be. Ways are ``torch.compile``, ``lw.from_torch`` of an exported program, ``lw.from_onnx``
of an exported file, the results and gradients of a training step, and the tokens that ``generate``
writes, here and with inductor. One line each says what became of it: compiled ``whole``, in
``parts`` around what PyTorch runs, in ``eager`` mode altogether, with ``wrong`` numbers, with
others where PyTorch's own are as far from those of float64 (``unstable``) or those that Dynamo's
capture gives without a compiler (``dynamo``), an ``error`` that eager mode does not have, or past
its ``time``. What PyTorch itself does not run or export is ``untried``.
Exits with 1 if a result is wrong. It needs ``transformers`` or ``timm`` beside PyTorch.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import logging
import multiprocessing
import os
import sys
import timeit
import warnings
from collections import Counter
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import loopwright as lw
import numpy as np
import torch

from .tiny_models import architectures, timm_model, transformer

TOLERANCE = 2e-3
"""The difference to eager mode over the greatest element, from which on a result is wrong: layers
of norms multiply what float32 rounds."""
MOST_ERROR = 4.0
"""Multiple of PyTorch's own error that ours may be where a model's results are unstable."""

IMAGES = 4
"""Images of a training step."""

TOKENS = 60
"""Tokens that a model writes."""

MOST_COMPILES = 3
"""Graphs that it may take to write them: of the prompt, of the first token, of any token."""


def _flat(result: Any) -> list[np.ndarray]:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [each.detach().double().numpy() for each in leaves if isinstance(each, torch.Tensor)]


class _Lines(logging.Handler):
    """Keeps what the compiler logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _verdict(results: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Returns what is wrong with results, empty for nothing."""
    if len(results) != len(expected):
        return f"{len(results)} tensors, not {len(expected)}"
    for x, y in zip(results, expected, strict=True):
        if x.shape != y.shape or np.isnan(x).any() != np.isnan(y).any():
            return f"{x.shape} and {y.shape}, or nan"
        if not x.size or np.isnan(y).all() or np.array_equal(x, y):
            continue
        if not np.nanmax(np.abs(x - y)) <= TOLERANCE * max(np.nanmax(np.abs(y)), 1e-3):
            return f"a difference of {np.nanmax(np.abs(x - y)):.2g} of {np.nanmax(np.abs(y)):.2g}"
    return ""


def _call(function: Any, given: Mapping[str, Any]) -> list[np.ndarray]:
    """Returns the tensors of a call, with the random numbers of every other call."""
    torch.manual_seed(0)
    with torch.no_grad():
        return _flat(function(**given))


def _compiled(
    model: Any, given: Mapping[str, Any], backend: str = "loopwright"
) -> list[np.ndarray]:
    return _call(torch.compile(model, backend=backend), given)


def _exported(model: Any, given: Mapping[str, Any]) -> list[np.ndarray]:
    try:
        with torch.no_grad():
            program = torch.export.export(model, (), dict(given), strict=False)
    except Exception as error:
        raise _UntriedError(f"torch.export: {error}") from None
    return _call(lw.from_torch(program), given)


def _onnx(model: Any, given: Mapping[str, Any]) -> list[np.ndarray]:
    try:
        with torch.no_grad():
            program = torch.onnx.export(model, kwargs=dict(given), dynamo=True, verbose=False)
        proto = program.model_proto  # pyright: ignore
    except Exception as error:
        raise _UntriedError(f"torch.onnx: {error}") from None
    tensors = [each.numpy() for each in given.values() if isinstance(each, torch.Tensor)]
    results = lw.from_onnx(proto)(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    return [np.asarray(each, np.float64) for each in results]


def _images(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with several images in the place of one: norms of a batch divide by how
    much its elements differ, and those of one small image hardly do."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn((IMAGES, *x.shape[1:]), generator=generator)
        if len(given) == 1 and isinstance(x, torch.Tensor) and x.dim() == 4
        else x
        for name, x in given.items()
    }


def _trained(model: Any, given: Mapping[str, Any], backend: str = "loopwright") -> list[np.ndarray]:
    """Returns the results of a training step, and the gradients."""
    return _step(torch.compile(model, backend=backend), given)


def _step(model: Any, given: Mapping[str, Any]) -> list[np.ndarray]:
    torch.manual_seed(0)
    model.train().zero_grad()
    results = torch.utils._pytree.tree_leaves(model(**given))
    tensors = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    sum(x.float().square().mean() for x in tensors).backward()  # pyright: ignore
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return _flat([tensors, gradients])


def _tokens(model: Any, given: Mapping[str, Any]) -> list[np.ndarray]:
    limits = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    return _flat(model.generate(**given, **limits))


def _generated(model: Any, given: Mapping[str, Any], backend: str) -> list[np.ndarray]:
    """Returns the tokens that a model writes, and notes the time of each.

    Raises RuntimeError if that took more than ``MOST_COMPILES`` graphs.
    """
    eager, times = model.forward, dict[str, float]()
    model.forward = compiled = torch.compile(eager, backend=backend)
    tokens = _tokens(model, given)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]  # pyright: ignore
    if graphs > MOST_COMPILES:
        raise RuntimeError(f"{graphs} graphs were compiled")
    for name, model.forward in (("eager", eager), (backend, compiled)):
        times[name] = min(timeit.repeat(lambda: _tokens(model, given), number=1, repeat=3))
    _notes.extend(f"{name} {each / TOKENS * 1e3:.2f} ms," for name, each in times.items())
    _notes.append(f"graphs: {graphs}")
    return tokens


_notes: list[str] = []
"""Times and counts that are printed beside the outcome of the model of this process."""


class _UntriedError(Exception):
    """The way is not one that PyTorch itself can go with the model."""


WAYS: dict[str, tuple[Any, Any]] = {
    "compile": (_call, _compiled),
    "export": (_call, _exported),
    "onnx": (_call, _onnx),
    "train": (_step, _trained),
    "generate": (_tokens, functools.partial(_generated, backend="loopwright")),
    "inductor": (_tokens, functools.partial(_generated, backend="inductor")),
}
"""Ways to run a model by name: in eager mode, and here."""


def _without_chance(model: Any) -> None:
    """Gives the parameters of a model some noise, and takes its dropout and its masks."""
    for holder in (*model.modules(), *filter(None, [getattr(model, "config", None)])):
        for name, value in list(vars(holder).items()):
            drops = "drop" in name or "mask_" in name or "Drop" in type(holder).__name__
            if isinstance(value, float) and drops:
                setattr(holder, name, 0.0)
    with torch.no_grad():
        for parameter in model.parameters():  # a router of zeros would choose among equals
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)


def _apart(results: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """Returns the largest error of results as a share of the largest number of its tensor."""
    pairs = [(x, y) for x, y in zip(results, exact, strict=True) if x.size]
    return max(
        (float(np.nanmax(np.abs(x - y)) / np.nanmax(np.abs(y))) for x, y in pairs), default=0
    )


def _is_unstable(
    eager: Any, model: Any, given: Mapping[str, Any], expected: Any, results: Any
) -> bool:
    """True if PyTorch's own results are not those of float64, by the same measure: of scores that
    differ by their rounding alone another one is the greatest. Ours may be off by as much."""
    wide = {
        name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for name, x in given.items()
    }
    try:
        exact = eager(model.double(), wide)
        close = _apart(results, exact) <= MOST_ERROR * _apart(expected, exact)
        return close and bool(_verdict(expected, exact))
    except Exception:  # a model that computes in float32 alone
        return False


def _is_of_dynamo(way: str, model: Any, given: Mapping[str, Any], results: Any) -> bool:
    """True if results are those that a graph of Dynamo's has that PyTorch runs itself."""
    if way not in ("compile", "train"):
        return False
    torch._dynamo.reset()
    try:
        return not _verdict(results, WAYS[way][1](model, given, backend="eager"))
    except Exception:  # what Dynamo does not capture
        return False


def outcome(library: str, name: str, way: str) -> tuple[str, str]:
    """Returns what became of an architecture on one of the ways, and a word on it."""
    torch.manual_seed(0)
    eager, here = WAYS[way]
    try:
        if library == "timm":
            model, given = timm_model(name)
        else:
            model, given = transformer(name, writes=eager is _tokens)
        given = _images(given) if eager is _step else given
        model = model.eval()
        _without_chance(model)
        expected = eager(model, given)
    except Exception as error:  # whatever eager mode does not run
        return "untried", f"{type(error).__name__}: {error}"
    lines = _Lines()
    logging.getLogger("loopwright").addHandler(lines)
    try:
        results = here(model, given)
    except _UntriedError as error:
        return "untried", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    if wrong := _verdict(results, expected):
        if _is_of_dynamo(way, model, given, results):
            return "dynamo", wrong
        unstable = _is_unstable(eager, model, given, expected, results)
        return ("unstable" if unstable else "wrong"), wrong
    said = " ".join(" ".join(lines.lines).split())
    if not lines.lines:
        return "whole", " ".join(_notes)
    return ("parts" if "parts: " in said else "eager"), " ".join((*_notes, said))


def _alone(library: str, name: str, way: str, pipe: Connection) -> None:
    """Sends the outcome of one model; runs in a process of its own."""
    warnings.simplefilter("ignore")
    gc.disable()  # a process ends before that is of use
    torch.set_num_threads(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    pipe.send(outcome(library, name, way))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", choices=("transformers", "timm"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="try one of so many")
    parser.add_argument("--ways", default="compile", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--seconds", type=float, default=180, help="for each of them")
    options = parser.parse_args()
    for name in (options.library, f"{lw.__name__}.tracer.frontends.torch.dynamo"):
        importlib.import_module(name)  # once, and not for each process
    if options.library == "transformers":
        importlib.import_module("transformers.modeling_utils")
    _compiled(torch.nn.Linear(2, 2), {"input": torch.zeros(1, 2)})  # what a compile loads, as well
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()  # pyright: ignore
    gc.freeze()
    processes = multiprocessing.get_context("fork")
    counts = {way: Counter[str]() for way in options.ways.split(",")}
    for name in options.names or architectures(options.library)[:: options.every]:
        for way, count in counts.items():
            given, taken = processes.Pipe(False)
            job = processes.Process(target=_alone, args=(options.library, name, way, taken))
            job.start()
            taken.close()
            try:
                limit = f"more than {options.seconds:g} s"
                kind, why = given.recv() if given.poll(options.seconds) else ("time", limit)
            except EOFError:
                job.join()
                kind, why = "error", f"the process ended with {job.exitcode}"
            job.kill()
            job.join()
            count[kind] += 1
            print(f"{name:32} {way:8} {kind:8} {' '.join(why.split())[:300]}", flush=True)
    for way, count in counts.items():
        print(f"{way}: " + ", ".join(f"{n} {kind}" for kind, n in count.most_common()))
    return int(any(count["wrong"] > 0 for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
