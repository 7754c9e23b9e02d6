"""Tries PyTorch's own samples of its operators against the importer.

::

    python -m tools.torch_operators [NAME ...] [--samples 6] [--dtypes float32 int64] [--compiled]
    python -m tools.torch_operators --placements [--every 20] [NAME ...]

It needs what PyTorch's own tests need: pip install expecttest.

Each sample of ``torch.testing``'s database is traced to core ATen, imported and evaluated, forward
and backward, and compared with PyTorch. One line per operator that fails or is refused; at the end
the counts, and for each missing operator of ATen how many operators of PyTorch ask for it.

With ``--placements`` each sample is contiguous, transposed, sliced, behind other elements,
expanded, of one row and of none, in place, imported for another placement than it has, with its
results written in place and read by their strides, and has each optional argument, instead of its
gradient.
Exits with 1 if a result differs (``wrong``); an error or a refusal is none of that.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import loopwright as lw
import numpy as np
import torch
from loopwright.ir.graph.evaluate import evaluate
from loopwright.tracer.frontends.torch.decompositions import decompositions
from loopwright.tracer.frontends.torch.imported import Computed, Passed
from loopwright.tracer.frontends.torch.importer import import_graph
from loopwright.tracer.frontends.torch.tensors import array_of, in_order, tensor_of
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

from .torch_placements import Trial, function_of, placed_trials, with_writes

SAMPLE_ELEMENTS = 100_000
"""Elements of a sample's tensors, above which it is left out: the interpreter is slow."""


def outcome(
    function: Callable[..., Any],
    tensors: Sequence[Any],
    compiled: bool,
    example: Sequence[Any] | None = None,
) -> tuple[list[Any], bool]:
    """Returns the results of ``function`` by the importer, and whether random numbers are drawn.

    The function is imported for ``example``, if there is one, and called with ``tensors``.
    """
    example = tensors if example is None else example
    with enable_python_dispatcher():  # as PyTorch's compilers trace
        written = make_fx(function, tracing_mode="fake")(*example)
    graph = make_fx(torch.func.functionalize(written), decompositions(), "fake")(*example)
    graph.graph.eliminate_dead_code()
    imported = import_graph(graph, list(example), name="sample")
    for argument in imported.arguments:
        argument.check(tensors[argument.position])
    arrays = [in_order(array_of(tensors[a.position]), a.order) for a in imported.arguments]
    torch.manual_seed(0)
    arrays += [array_of(draw(arrays)) for draw in imported.draws]
    if compiled:
        results = lw.build(imported.module)(*arrays)
    else:
        results = evaluate(imported.module, *arrays)
    results = results if isinstance(results, tuple | list) else (results,)
    values: list[Any] = []
    for result in imported.results:
        if isinstance(result, Computed):
            values.append(result.of(tensor_of(np.array(results[result.number]))))
        elif isinstance(result, Passed):
            values.append(result.of(tensors[result.position]))
        else:
            values.append(result.value)
    return values, bool(imported.draws)


SAMPLE_SECONDS = 20
"""Seconds that a sample may take; the compiler's interpreter is slow, too."""


def _gradients(flat: Callable[..., Any]) -> Callable[..., Any]:
    def gradients(*tensors: Any) -> list[Any]:
        leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        results = [r for r in flat(*leaves) if r.is_floating_point() and r.requires_grad]
        total = [(r * torch.arange(1, r.numel() + 1).view(r.shape)).mean() for r in results]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        grads = torch.autograd.grad(sum(total), wanted, allow_unused=True)  # type: ignore[arg-type]
        return [grad for grad in grads if grad is not None]

    return gradients


def trials(op: Any, dtype: torch.dtype, count: int) -> Iterator[Trial]:
    """Yields functions of tensors with their arguments: samples forward, then their gradients."""
    backward = op.supports_autograd and dtype.is_floating_point
    for n, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if n == count:
            return
        given = (sample.input, sample.args, sample.kwargs)
        flat, tensors = function_of(op.op, given, in_place=False)
        flat = with_writes(flat, tensors)
        if not tensors or sum(t.numel() for t in tensors) > SAMPLE_ELEMENTS:
            continue
        yield Trial(f"sample {n}", flat, tensors)
        if backward:
            yield Trial(f"gradient {n}", _gradients(flat), tensors)


def check(
    op: Any, dtype: torch.dtype, count: int, compiled: bool, placements: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields ``passes``, ``refused``, ``wrong``, ``fails`` or ``skipped`` and the reason: of each
    trial if ``placements``, else of the first that does not pass."""
    passed = 0
    for trial in (placed_trials if placements else trials)(op, dtype, count):
        if sum(t.numel() for t in trial.tensors) > SAMPLE_ELEMENTS or not trial.tensors:
            continue
        verdict, reason = _verdict(op.name, trial, compiled)
        passed += verdict == "passes"
        if placements and verdict:
            yield verdict, reason
        elif verdict not in ("passes", ""):
            yield verdict, reason
            return
    if not placements:
        yield ("passes", "") if passed else ("skipped", "no sample")


def _verdict(op: str, trial: Trial, compiled: bool) -> tuple[str, str]:
    """Returns how one trial went; an empty word if PyTorch does not have it, writes no graph of it
    or takes too long."""
    name, function, tensors = trial.name, trial.function, trial.tensors
    try:
        torch.manual_seed(0)
        expected = function(*tensors)
    except Exception:
        return "", ""
    shapes = [tuple(t.shape) for t in tensors]
    try:
        signal.alarm(SAMPLE_SECONDS)
        given, drawn = outcome(function, tensors, compiled, trial.example)
        signal.alarm(0)
    except TimeoutError:
        return "", ""
    except lw.UnsupportedError as error:
        return "refused", f"{name}: {error.message}"
    except Exception as error:
        kind = type(error).__name__
        of_data = "not allocated yet" in str(error)
        if of_data or kind.endswith(("OutputException", "OutputShapeException", "SymNode")):
            return "refused", f"{name}: sizes that depend on data"
        if not _is_traced(function, tensors if trial.example is None else trial.example):
            return "", ""
        return "fails", f"{name} {shapes}: {kind}: {str(error)[:200]!r}"
    finally:
        signal.alarm(0)
    used = name.split()[2:3] in (["written_after"], ["read_by_strides"])
    if op in UNORDERED and used and tensors[0].unique().numel() < tensors[0].numel():
        return "", ""
    try:
        if op in UNORDERED and len(given) == 2 and "strides" not in name:
            _compare(given[:1], expected[:1], False, True)
            assert _chosen(tensors[0], *given), "the indices are not those of the values"
        else:
            _compare(given, expected, drawn or "empty" in op, op in UNORDERED)
    except Exception as error:
        if _is_as_near(given, expected, function, tensors):
            return "passes", ""
        if " ".join((op, *name.split()[2:3])) in PYTORCH_DIFFERS or _is_of_copies(
            op, given, function, tensors
        ):
            return "", ""
        return "wrong", f"{name} {shapes}: {str(error)[:200]!r}"
    return "passes", ""


def _is_traced(function: Callable[..., Any], example: Sequence[Any]) -> bool:
    """Returns whether PyTorch itself writes a graph without writes of a function."""
    try:
        with enable_python_dispatcher():
            written = make_fx(function, tracing_mode="fake")(*example)
        make_fx(torch.func.functionalize(written), tracing_mode="fake")(*example)
    except Exception:
        return False
    return True


UNORDERED = frozenset(("argsort", "kthvalue", "sort", "topk"))
"""Operators that leave the order of results open: equal elements, or all if ``sorted`` is False."""

PYTORCH_DIFFERS = frozenset(
    (
        "nn.functional.dropout written_after",
        "nn.functional.interpolate read_by_strides",
        "nn.functional.pixel_unshuffle empty",
        "nn.functional.upsample_nearest read_by_strides",
        "resize_as_ read_by_strides",
        "unsafe_chunk written_after",
        "unsafe_split written_after",
    )
)
"""Trials of which eager PyTorch gives another shape or other strides than its own meta function, or
that share memory which PyTorch's graphs say that they do not share."""


def _compare(given: list[Any], expected: list[Any], kind_only: bool, unordered: bool) -> None:
    """Raises unless results are equal: in shape and dtype alone if their values are random or not
    initialised, as sets of elements if their order is open."""
    for ours, theirs in zip(given, expected, strict=True):
        tolerance = TOLERANCES.get(theirs.dtype, 0.0)
        options: Any = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        if kind_only:
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        elif unordered and ours.shape == theirs.shape:
            pair = [x.flatten().sort().values for x in (ours, theirs)]
            torch.testing.assert_close(*pair, **options)
        else:
            torch.testing.assert_close(ours, theirs, **options)


def _chosen(tensor: Any, values: Any, indices: Any) -> bool:
    """True if ``indices`` along some axis of ``tensor`` have the ``values``."""
    if not tensor.ndim or not values.numel():
        return True
    near = {"rtol": TOLERANCES.get(tensor.dtype, 0.0), "equal_nan": True}
    if indices.ndim < tensor.ndim:  # an axis is gone
        pairs = ((values.unsqueeze(a), indices.unsqueeze(a)) for a in range(tensor.ndim))
        return any(_chosen(tensor, *pair) for pair in pairs)
    return any(
        torch.allclose(tensor.gather(axis, indices).double(), values.double(), **near)
        for axis in range(tensor.ndim)
        if all(a == axis or i <= n for a, (i, n) in enumerate(zip(indices.shape, tensor.shape)))
        and int(indices.max()) < tensor.shape[axis]
    )


def _is_as_near(
    given: list[Any], expected: list[Any], function: Callable[..., Any], tensors: list[Any]
) -> bool:
    """True if all results are as near as PyTorch's own to those of float64, or twice as far."""
    try:
        exact = function(*(t.double() if t.is_floating_point() else t for t in tensors))
        for ours, theirs, right in zip(given, expected, exact, strict=True):
            assert ours.is_floating_point() and right.dtype is torch.float64
            assert (ours - right).abs().max() <= 2 * (theirs - right).abs().max()
    except Exception:
        return False
    return True


def _is_of_copies(
    op: str, given: list[Any], function: Callable[..., Any], tensors: list[Any]
) -> bool:
    """True if PyTorch gives ``given`` for copies of its tensors, though not for them: some of its
    kernels read a strided tensor as if it were contiguous. That does not excuse ``as_strided``."""
    if "as_strided" in op:
        return False
    try:
        _compare(given, function(*(t.contiguous().clone() for t in tensors)), False, False)
    except Exception:
        return False
    return True


TOLERANCES = {
    torch.float16: 5e-3,
    torch.bfloat16: 2e-2,
    torch.float32: 2e-4,
    torch.float64: 2e-7,
    torch.complex64: 2e-4,
    torch.complex128: 2e-7,
}
"""Relative and absolute differences that are none; all others are exact."""


def _too_long(*args: Any) -> None:
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operators, by the name in the database")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--placements", action="store_true", help="place tensors in seven ways")
    parser.add_argument("--every", type=int, default=1, help="try one of so many operators")
    parser.add_argument("--compiled", action="store_true", help="run machine code")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for op in op_db[:: options.every]:
        for dtype_name in options.dtypes:
            dtype = getattr(torch, dtype_name)
            if options.names and op.name not in options.names:
                continue
            if dtype not in op.dtypes:
                continue
            arguments = (op, dtype, options.samples, options.compiled, options.placements)
            for verdict, reason in check(*arguments):
                counts[verdict] += 1
                missing.update(
                    set(re.findall(r"(?:aten|prims)\.[\w.]+", reason))
                    if verdict == "refused"
                    else ()
                )
                printed = (
                    ("wrong", "fails") if options.placements else ("wrong", "fails", "refused")
                )
                if verdict in printed:
                    variant = f".{op.variant_test_name}" if op.variant_test_name else ""
                    print(f"{verdict} {op.name}{variant} {dtype_name} {reason}", flush=True)
    print(dict(counts))
    print("missing:", ", ".join(f"{name} ({count})" for name, count in missing.most_common()))
    sys.exit(bool(counts["wrong"]))


if __name__ == "__main__":
    main()
