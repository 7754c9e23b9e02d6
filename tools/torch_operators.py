"""Tries PyTorch's own samples of its operators against the importer.

::

    python -m tools.torch_operators [NAME ...] [--samples 6] [--dtypes float32 int64] [--compiled]

Each sample of ``torch.testing``'s database is traced to core ATen, imported and evaluated, forward
and backward, and compared with PyTorch. One line per operator that fails or is refused; at the end
the counts, and for each missing operator of ATen how many operators of PyTorch ask for it.
"""

from __future__ import annotations

import argparse
import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import loopwright as lw
import numpy as np
import torch
from loopwright.ir.graph.evaluate import evaluate
from loopwright.tracer.frontends.torch.decompositions import decompositions
from loopwright.tracer.frontends.torch.importer import Computed, Passed, import_graph
from loopwright.tracer.frontends.torch.tensors import in_order
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLE_ELEMENTS = 100_000
"""Elements of a sample's tensors, above which it is left out: the interpreter is slow."""


def outcome(function: Callable[..., Any], tensors: Sequence[Any], compiled: bool) -> list[Any]:
    """Returns the results of ``function`` by the importer."""
    written = make_fx(function, tracing_mode="fake")(*tensors)
    graph = make_fx(torch.func.functionalize(written), decompositions(), "fake")(*tensors)
    graph.graph.eliminate_dead_code()
    imported = import_graph(graph, list(tensors), name="sample")
    arrays = [in_order(_array(tensors[a.position]), a.order) for a in imported.arguments]
    torch.manual_seed(0)
    arrays += [draw().numpy() for draw in imported.draws]
    if compiled:
        results = lw.build(imported.module)(*arrays)
    else:
        results = evaluate(imported.module, *arrays)
    results = results if isinstance(results, tuple | list) else (results,)
    values: list[Any] = []
    for result in imported.results:
        if isinstance(result, Computed):
            values.append(result.in_axes(torch.from_numpy(np.array(results[result.number]))))
        elif isinstance(result, Passed):
            values.append(result.of(tensors[result.position]))
        else:
            values.append(result.value)
    return values


SAMPLE_SECONDS = 20
"""Seconds that a sample may take; the compiler's interpreter is slow, too."""


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().numpy()


def _flat(function: Callable[..., Any], sample: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the call of a sample as a function of its tensors that returns a list."""
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def flat(*tensors: Any) -> list[Any]:
        given = dict(zip(places, tensors, strict=True))
        tree = [given.get(n, leaf) for n, leaf in enumerate(leaves)]
        first, args, kwargs = pytree.tree_unflatten(tree, structure)
        result = function(first, *args, **kwargs)
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    return flat, [leaves[n] for n in places]


def _gradients(flat: Callable[..., Any]) -> Callable[..., Any]:
    def gradients(*tensors: Any) -> list[Any]:
        leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        results = [r for r in flat(*leaves) if r.is_floating_point() and r.requires_grad]
        total = [(r * torch.arange(1, r.numel() + 1).view(r.shape)).mean() for r in results]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        grads = torch.autograd.grad(sum(total), wanted, allow_unused=True)  # type: ignore[arg-type]
        return [grad for grad in grads if grad is not None]

    return gradients


def trials(op: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yields functions of tensors with their arguments: samples forward, then their gradients."""
    backward = op.supports_autograd and dtype.is_floating_point
    for n, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if n == count:
            return
        flat, tensors = _flat(op.op, sample)
        if not tensors or sum(t.numel() for t in tensors) > SAMPLE_ELEMENTS:
            continue
        yield f"sample {n}", flat, tensors
        if backward:
            yield f"gradient {n}", _gradients(flat), tensors


def check(op: Any, dtype: torch.dtype, count: int, compiled: bool) -> tuple[str, str]:
    """Returns ``passes``, ``refused``, ``fails`` or ``skipped``, and the reason."""
    passed = 0
    for name, function, tensors in trials(op, dtype, count):
        try:
            torch.manual_seed(0)
            expected = function(*tensors)
        except Exception:
            continue  # PyTorch does not have it
        try:
            signal.alarm(SAMPLE_SECONDS)
            given = outcome(function, tensors, compiled)
            signal.alarm(0)
            torch.testing.assert_close(given, expected, rtol=2e-4, atol=2e-4, equal_nan=True)
        except TimeoutError:
            continue
        except lw.UnsupportedError as error:
            return "refused", f"{name}: {error.message}"
        except Exception as error:
            kind = type(error).__name__
            if kind.endswith(("OutputException", "OutputShapeException", "SymNode")):
                return "refused", f"{name}: sizes that depend on data"
            shapes = [tuple(t.shape) for t in tensors]
            return "fails", f"{name} {shapes}: {kind}: {str(error)[:200]!r}"
        passed += 1
    return ("passes", "") if passed else ("skipped", "no sample")


def _too_long(*args: Any) -> None:
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operators, by the name in the database")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--compiled", action="store_true", help="run machine code")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for op in op_db:
        for dtype_name in options.dtypes:
            dtype = getattr(torch, dtype_name)
            if options.names and op.name not in options.names:
                continue
            if dtype not in op.dtypes:
                continue
            verdict, reason = check(op, dtype, options.samples, options.compiled)
            counts[verdict] += 1
            missing.update(
                set(re.findall(r"(?:aten|prims)\.[\w.]+", reason)) if verdict == "refused" else ()
            )
            if verdict in ("fails", "refused"):
                variant = f".{op.variant_test_name}" if op.variant_test_name else ""
                print(f"{verdict} {op.name}{variant} {dtype_name} {reason}", flush=True)
    print(dict(counts))
    print("missing:", ", ".join(f"{name} ({count})" for name, count in missing.most_common()))


if __name__ == "__main__":
    main()
