"""``lw.quantize``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..face.compiled_function import CompiledFunction
from ..face.module import CompiledModule, build
from ..face.user_errors import reports_errors
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.builder import Builder
from ..ir.graph.compose import F, Value
from ..ir.graph.nodes import Atom, Call, Module
from .profile import Profile, observe
from .ranges import Scheme
from .report import QuantisationReport, SiteReport
from .rewrite import Contract, Rounding, contracted, quantised, smoothed, switched
from .sites import Site, extended, left_out, prepared, sites_of, values_of, with_results
from .weights_only import rounded_weights, takes

MOST_COMPARED = 8
"""Samples on which results are compared."""

MOST_SWITCHED = 2
"""Samples on which each site is changed by itself."""

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
        results: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        super().__init__(module, name, **options)
        self._traced = replace(self._traced, **results)
        self._results = results
        self.observed, self.report, self.scheme = profile, report, scheme

    def _for_threads(self, count: int | None) -> CompiledFunction:
        about = (self._name, self.observed, self.report, self.scheme, self._results)
        return QuantisedModule(self.module, *about, **{**self._options, "threads": count})


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
    and convolutions in float32 outside of loops are quantised as ``scheme`` says. As few as
    possible stay float for the results of a few samples to differ by no more than ``error``, a part
    of their norm: those that change the results most by themselves. A ``profile`` that was saved
    stands for observing the samples. ``options`` are those of ``lw.compile``. Results have the
    structure that ``f`` gives them. What was done is told by ``report``, which prints and has
    ``save("report.html")``, and by ``observed``, which has ``save("profile.json")``.

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
    scheme = Scheme() if scheme is None else scheme
    if not isinstance(scheme, Scheme):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LoopwrightTypeError(
            f"scheme is a lw.Scheme, not {scheme!r}", hint="lw.Scheme(weights_only=4)"
        )
    given = list(samples)
    if not given:
        raise LoopwrightValueError("there are no samples to learn ranges from")
    module, name, arrays, results = _module_of(f, given, options)
    few = arrays[:MOST_COMPARED]
    of_kind = _plan_of_bytes if scheme.weights_only is None else _plan_of_weights
    plan = of_kind(prepared(module), name, arrays, scheme, profile, options)
    plain = build(plan.module, name=name, **options)
    exact = [_flat(plain(*sample)) for sample in few]

    def made(floats: Collection[str]) -> tuple[CompiledModule, float]:
        compiled = build(plan.changed(floats), name=name, **options)
        return compiled, _distance(exact, [_flat(compiled(*sample)) for sample in few])

    floats: Sequence[str] = ()
    compiled, off = made(floats)
    if error is not None and off > error:
        if error < 0:
            raise LoopwrightValueError(f"no way to quantise {name} is as close as {error}")
        harm = _harm_of_sites(plan, few[:MOST_SWITCHED], options)
        worst = sorted(harm, key=lambda name: -harm[name])
        too_few, floats, compiled, off = 0, worst, plain, 0.0
        while too_few + 1 < len(floats):
            tried = worst[: (too_few + len(floats)) // 2]
            closer, distance = made(tried)
            if distance > error:
                too_few = len(tried)
            else:
                floats, compiled, off = tried, closer, distance
    rows = tuple(
        SiteReport(
            s.name,
            0 if s.weights is None else s.weights.value.size,
            plan.errors[s.name],
            s.name in floats,
            scheme.weights_only or 8,
            plan.nearest.get(s.name),
        )
        for s in plan.sites
    )
    times = tuple(_time(call, few[0]) for call in (plain, compiled))
    left = left_out(plan.module, plan.sites, f"no constant matrix in groups of {scheme.group}")
    report = QuantisationReport(name, rows, plan.profile, off, times, tuple(left))
    return QuantisedModule(compiled.module, name, plan.profile, report, scheme, results, **options)


@dataclass(frozen=True, slots=True)
class Plan:
    """A float ``module`` with its ``sites``: how far each is off if ``contract`` emits it, and the
    program in which all but those of some names are ``changed``."""

    module: Module
    sites: Sequence[Site]
    profile: Profile
    errors: Mapping[str, float]
    nearest: Mapping[str, float]
    contract: Callable[[], Contract]
    changed: Callable[[Collection[str]], Module]


def _plan_of_bytes(
    module: Module,
    name: str,
    samples: Samples,
    scheme: Scheme,
    profile: Profile | None,
    options: Mapping[str, Any],
) -> Plan:
    sites = _required(sites_of(module.main), name)
    if scheme.smooth is not None:
        values = values_of(module.main, sites)
        seen = observe(module, values, sites, samples, options)
        module = smoothed(module, sites, values, seen, scheme.smooth)
        sites = sites_of(module.main)
    values = values_of(module.main, sites)
    profile = profile or observe(module, values, sites, samples, options)
    if missing := values.keys() - profile.values.keys():
        raise LoopwrightValueError(f"the profile does not tell of {min(missing)}")
    observed = {var: profile.values[name] for name, var in values.items()}

    def contract() -> Contract:
        return Rounding(sites, observed, scheme).contracted

    def changed(floats: Collection[str]) -> Module:
        return quantised(module, sites, observed, scheme, floats)

    errors = _errors_of_sites(module, sites, contract(), samples[:MOST_COMPARED], options)
    return Plan(module, sites, profile, errors, {}, contract, changed)


def _plan_of_weights(
    module: Module,
    name: str,
    samples: Samples,
    scheme: Scheme,
    _profile: Profile | None,
    options: Mapping[str, Any],
) -> Plan:
    sites = _required([s for s in sites_of(module.main) if takes(s, scheme)], name)
    rounded = rounded_weights(module, sites, samples, scheme, options)

    def contract(site: Site, call: Call, builder: Builder) -> Atom:
        return rounded[site.name].product(call, builder)

    def changed(floats: Collection[str]) -> Module:
        return contracted(module, [s for s in sites if s.name not in floats], contract)

    nearest, errors = ({n: getattr(r, k) for n, r in rounded.items()} for k in ("nearest", "error"))
    return Plan(
        module, sites, Profile({}, len(samples)), errors, nearest, lambda: contract, changed
    )


def _required(sites: list[Site], name: str) -> list[Site]:
    if not sites:
        raise LoopwrightValueError(f"{name} has no product or convolution in float32 to quantise")
    return sites


def _harm_of_sites(plan: Plan, samples: Samples, options: Mapping[str, Any]) -> dict[str, float]:
    """Returns how far the results are off if a single site is changed."""
    call = build(switched(plan.module, plan.sites, plan.contract()), **options)

    def results(changed: Site | None) -> list[Array]:
        switches = [np.array(site is changed) for site in plan.sites]
        return [_flat(call(*sample, *switches)) for sample in samples]

    exact = results(None)
    return {site.name: _distance(exact, results(site)) for site in plan.sites}


def _module_of(
    f: Any, samples: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Module, str, Samples, Mapping[str, Any]]:
    """Returns the module of a model or function, its name, the arrays of each sample, and what
    tells of the structure of a function's results."""
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
        return f.module, f._name, [[np.asarray(a) for a in s] for s in arrays], {}
    compiled = f if isinstance(f, CompiledFunction) else CompiledFunction(f, **options)
    (args, named), *_ = calls
    lowered = compiled.lower(*args, **named)
    traced = lowered.traced
    results = {key: getattr(traced, key) for key in ("structure", "outputs", "written", "trims")}
    return traced.module, traced.name, [lowered.operands(*a, **n) for a, n in calls], results


def _call_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample) if isinstance(sample, tuple | list) else (sample,)), {}


def _errors_of_sites(
    module: Module,
    sites: Sequence[Site],
    contract: Contract,
    samples: Samples,
    options: Mapping[str, Any],
) -> dict[str, float]:
    """Returns how far each site's result is off by itself, of float factors: the norm of the
    difference as a part of its norm."""
    builder = extended(module)
    parts: list[Any] = []
    for site in sites:
        exact = Value(builder, site.var)
        off = Value(builder, contract(site, site.call, builder)) - exact
        parts += [F.sum(off * off).atom, F.sum(exact * exact).atom]
    call = build(with_results(module, builder, parts), **options)
    total = np.sum([np.array(call(*sample), np.float64) for sample in samples], axis=0)
    return {
        site.name: float(np.sqrt(total[2 * n] / (total[2 * n + 1] or 1.0)))
        for n, site in enumerate(sites)
    }


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
