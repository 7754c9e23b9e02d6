"""``lw.quantize``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..face.compiled_function import CompiledFunction
from ..face.module import CompiledModule, build
from ..face.user_errors import reports_errors
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.compose import F, Value
from ..ir.graph.nodes import Module
from .profile import Profile, observe
from .ranges import Scheme
from .report import QuantisationReport, SiteReport
from .rewrite import Rounding, quantised, smoothed
from .sites import Site, extended, prepared, sites_of, values_of, with_results

MOST_COMPARED = 8
"""Samples on which results are compared."""

Samples = Sequence[Sequence[Array]]


class QuantisedModule(CompiledModule):
    """A program on bytes, called as the float one: ``observed`` of samples, by a ``scheme``, with a
    ``report`` of what came of it."""

    def __init__(
        self,
        module: Module,
        name: str,
        profile: Profile,
        report: QuantisationReport,
        scheme: Scheme,
        **options: Any,
    ) -> None:
        super().__init__(module, name, **options)
        self.observed, self.report, self.scheme = profile, report, scheme


@reports_errors
def quantize(
    f: Any,
    samples: Iterable[Any],
    *,
    scheme: Scheme | None = None,
    error: float | None = None,
    profile: Profile | None = None,
    **options: Any,
) -> QuantisedModule:
    """Returns ``f`` with products and convolutions of bytes, whose ranges ``samples`` say.

    ``f`` is a model (``lw.from_onnx``, ``lw.build``) or a function of arrays, compiled or not; each
    sample is what a call takes: an array, a tuple of arrays, or a dict of them by name. Products
    and convolutions in float32 outside of loops are quantised as ``scheme`` says. Those that cost
    the most accuracy stay float until the results of a few samples differ by no more than
    ``error``, a part of their norm. A ``profile`` that was saved stands for observing the samples.
    ``options`` are those of ``lw.compile``. What was done is told by ``report``, which prints and
    has ``save("report.html")``, and by ``observed``, which has ``save("profile.json")``.

    Raises LoopwrightTypeError for samples that ``f`` does not take, LoopwrightValueError for none,
    for values that are not finite, and if ``error`` cannot be kept; UnsupportedError for symbolic
    sizes. (B. Jacob and others, "Quantization and training of neural networks for efficient
    integer-arithmetic-only inference", 2018; N. Rotem and others, "Glow", 2018.)

    >>> import numpy as np
    >>> import loopwright as lw
    >>> rng = np.random.default_rng(0)
    >>> w = rng.standard_normal((64, 64)).astype(np.float32)
    >>> xs = rng.standard_normal((8, 4, 64)).astype(np.float32)
    >>> q = lw.quantize(lambda x: np.maximum(x @ w, 0), xs)
    >>> bool(np.abs(q(xs[0]) - np.maximum(xs[0] @ w, 0)).max() < 0.5)
    True
    """
    scheme = scheme or Scheme()
    given = list(samples)
    if not given:
        raise LoopwrightValueError("there are no samples to learn ranges from")
    module, name, arrays = _module_of(f, given, options)
    module = prepared(module)
    sites = sites_of(module.main)
    if not sites:
        raise LoopwrightValueError(f"{name} has no product or convolution in float32 to quantise")
    if scheme.smooth is not None:
        values = values_of(module.main, sites)
        seen = observe(module, values, sites, arrays, options)
        module = smoothed(module, sites, values, seen, scheme.smooth)
        sites = sites_of(module.main)
    values = values_of(module.main, sites)
    profile = profile or observe(module, values, sites, arrays, options)
    if missing := values.keys() - profile.values.keys():
        raise LoopwrightValueError(f"the profile does not tell of {min(missing)}")
    few = arrays[:MOST_COMPARED]
    plain = build(module, name=name, **options)
    results = [_flat(plain(*sample)) for sample in few]
    errors = _errors_of_sites(module, sites, values, profile, scheme, few, options)
    worst = sorted(errors, key=lambda name: -errors[name])

    def made(floats: int) -> tuple[CompiledModule, float]:
        changed = quantised(module, sites, values, profile, scheme, worst[:floats])
        compiled = build(changed, name=name, **options)
        return compiled, _distance(results, [_flat(compiled(*sample)) for sample in few])

    floats, (compiled, off) = 0, made(0)
    while error is not None and off > error:
        if floats == len(sites):
            raise LoopwrightValueError(f"no way to quantise {name} is as close as {error}")
        floats = min(len(sites), max(1, 2 * floats))
        compiled, off = made(floats)
    rows = [_row(s, errors[s.name], s.name in worst[:floats]) for s in sites]
    times = tuple(_time(call, few[0]) for call in (plain, compiled))
    report = QuantisationReport(name, tuple(rows), profile, off, times)
    return QuantisedModule(compiled.module, name, profile, report, scheme, **options)


def _module_of(
    f: Any, samples: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Module, str, Samples]:
    """Returns the module of a model or function, its name, and the arrays of each sample."""
    calls = [_call_of(sample) for sample in samples]
    if isinstance(f, Module):
        f = CompiledModule(f)
    if isinstance(f, CompiledModule):
        inputs = f.inputs
        arrays = [
            [*args, *(named[n] for n in inputs[len(args) :] if n in named)] for args, named in calls
        ]
        for sample in arrays:
            if len(sample) != len(inputs):
                raise LoopwrightTypeError(
                    f"a sample has {len(sample)} arrays; {f._name} takes {', '.join(inputs)}"
                )
        return f.module, f._name, [[np.asarray(a) for a in sample] for sample in arrays]
    compiled = f if isinstance(f, CompiledFunction) else CompiledFunction(f, **options)
    (args, named), *_ = calls
    lowered = compiled.lower(*args, **named)
    return lowered.traced.module, lowered.traced.name, [lowered.operands(*a, **n) for a, n in calls]


def _call_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample) if isinstance(sample, tuple | list) else (sample,)), {}


def _errors_of_sites(
    module: Module,
    sites: Sequence[Site],
    values: Mapping[str, Any],
    profile: Profile,
    scheme: Scheme,
    samples: Samples,
    options: Mapping[str, Any],
) -> dict[str, float]:
    """Returns how far each site's result is off by itself, of float factors: the norm of the
    difference as a part of its norm."""
    builder = extended(module)
    rounding = Rounding(sites, {v: profile.values[n] for n, v in values.items()}, scheme)
    parts: list[Any] = []
    for site in sites:
        exact = Value(builder, site.var)
        off = Value(builder, rounding.contracted(site, site.call, builder)) - exact
        parts += [F.sum(off * off).atom, F.sum(exact * exact).atom]
    call = build(with_results(module, builder, parts), **options)
    total = np.sum([np.array(call(*sample), np.float64) for sample in samples], axis=0)
    return {
        site.name: float(np.sqrt(total[2 * n] / (total[2 * n + 1] or 1.0)))
        for n, site in enumerate(sites)
    }


def _row(site: Site, error: float, is_float: bool) -> SiteReport:
    weights = site.weights
    return SiteReport(site.name, 0 if weights is None else weights.value.size, error, is_float)


def _flat(results: Any) -> Array:
    parts = results if isinstance(results, tuple | list) else (results,)
    return np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in parts])


def _distance(exact: Sequence[Array], got: Sequence[Array]) -> float:
    """Returns the norm of the difference of all results, as a part of theirs."""
    a, b = np.concatenate(exact), np.concatenate(got)
    return float(np.linalg.norm(a - b) / (np.linalg.norm(a) or 1.0))


def _time(call: CompiledModule, sample: Sequence[Array]) -> float:
    """Returns the seconds of a call, the least of a few."""
    times: list[float] = []
    for _ in range(MOST_COMPARED):
        start = time.perf_counter()
        call(*sample)
        times.append(time.perf_counter() - start)
    return min(times)
