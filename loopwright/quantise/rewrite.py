"""The program with ``nn.quantize`` and ``nn.dequantize`` around what its contractions multiply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import BOOL, Array
from ..ir.graph.builder import Builder
from ..ir.graph.compose import F, Value
from ..ir.graph.nodes import Atom, Call, Constant, Expr, Module, Var
from ..ir.graph.passes.eliminate_dead_code import rewrite_without_dead_code
from ..ir.graph.types import TensorType
from .profile import Observed, Profile
from .ranges import LEVELS, Scheme, rounded, scale_of
from .sites import Site

MOST_WEIGHT = LEVELS // 2
"""The greatest integer of a weight: ranges have no zero point."""

LEAST_PEAK = 1e-5
"""The least that the greatest element of a channel counts for: some are always 0."""


def smoothed(
    module: Module,
    sites: Sequence[Site],
    values: Mapping[str, Var],
    profile: Profile,
    strength: float,
) -> Module:
    """Returns the program in which products with constant weights divide channels of the other
    factor, and multiply the weights, as ``Scheme.smooth`` says."""
    taken = {s.var: s for s in sites if is_product(s)}
    factors: dict[Atom, Array] = {}
    for name, var in values.items():
        weights = [_weight_peaks(s) for s in taken.values() if s.call.args[0] is var]
        if weights:
            peaks = np.maximum(profile.values[name].peaks, LEAST_PEAK)
            of_weights = np.maximum(np.max(weights, axis=0), LEAST_PEAK)
            factors[var] = peaks**strength / of_weights ** (1 - strength)
    divided: dict[Atom, Value] = {}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        site = taken.get(var)
        if site is None or not isinstance(value, Call) or site.weights is None:
            return None
        x, by = value.args[0], factors[site.call.args[0]]
        if x not in divided:
            inverse = Constant((1 / by).astype(np.float32))
            divided[x] = Value(builder, x) * Value(builder, inverse)
        shape = [1 if axis == site.roles.out else -1 for axis in range(2)]
        weights = Constant((site.weights.value * by.reshape(shape)).astype(np.float32))
        return builder.emit(value.operator, (divided[x].atom, weights), value.attrs)

    return module.with_function("main", rewrite_without_dead_code(module.main, step))


def is_product(site: Site) -> bool:
    """Returns True for a product with a constant matrix."""
    weights = site.weights
    return weights is not None and not site.roles.spatial and weights.value.ndim == 2


def _weight_peaks(site: Site) -> Array:
    assert site.weights is not None
    return np.abs(site.weights.value).max(axis=site.roles.out)


def quantised(
    module: Module,
    sites: Sequence[Site],
    observed: Mapping[Var, Observed],
    scheme: Scheme,
    floats: Collection[str] = (),
) -> Module:
    """Returns the program in which all sites but those called ``floats`` multiply integers.

    A value that a site multiplies is read as its integers by all others, too, so that it need not
    be stored twice.
    """
    taken = [site for site in sites if site.name not in floats]
    step = Rounding(taken, observed, scheme).step
    return module.with_function("main", rewrite_without_dead_code(module.main, step))


Contract = Callable[[Site, Call, Builder], Atom]
"""``contract(site, call, builder)`` emits what stands for the call of a site."""


def contracted(module: Module, sites: Sequence[Site], contract: Contract) -> Module:
    """Returns the program in which calls of sites are those that ``contract`` emits."""
    by_var = {site.var: site for site in sites}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        site = by_var.get(var)
        return contract(site, value, builder) if site and isinstance(value, Call) else None

    return module.with_function("main", rewrite_without_dead_code(module.main, step))


def switched(module: Module, sites: Sequence[Site], contract: Contract) -> Module:
    """Returns the program with one bool more for each site: whether ``contract`` has it."""
    switches = {s.name: Var(f"switch{n}", TensorType((), BOOL)) for n, s in enumerate(sites)}

    def either(site: Site, call: Call, builder: Builder) -> Atom:
        exact = Value(builder, builder.bind(call, site.var.type))
        made = Value(builder, contract(site, call, builder))
        return F.where(Value(builder, switches[site.name]), made, exact).atom

    main = replace(module.main, params=(*module.main.params, *switches.values()))
    return contracted(module.with_function("main", main), sites, either)


@dataclass(frozen=True, slots=True)
class Weights:
    """Constant weights as int8, with their scales along ``axis``, or one for all."""

    integers: Array
    scales: Array
    axis: int

    @property
    def floats(self) -> Array:
        """The numbers that the integers stand for."""
        shape = [
            -1 if n == self.axis and self.scales.ndim else 1 for n in range(self.integers.ndim)
        ]
        return self.integers.astype(np.float64) * self.scales.reshape(shape)


def weights_of(site: Site, scheme: Scheme) -> Weights:
    """Returns the constant weights of a site as integers."""
    assert site.weights is not None
    w, out = site.weights.value.astype(np.float64), site.roles.out
    others = tuple(axis for axis in range(w.ndim) if axis != out or not scheme.per_channel)
    scales = rounded(np.abs(w).max(axis=others) / MOST_WEIGHT, scheme).astype(np.float32)
    whole = Weights(np.ones(w.shape), scales, out).floats
    integers = np.clip(np.rint(w / whole), -MOST_WEIGHT, MOST_WEIGHT)
    return Weights(integers.astype(np.int8), scales, out)


def lost_means(site: Site, weights: Weights, means: Array) -> Array:
    """Returns what rounding the weights takes off the mean of each channel of a result, where the
    channels of the other factor have such ``means``."""
    assert site.weights is not None
    out, layout = site.roles.out, site.call.attrs.get("kernel_layout")
    depth = layout.index("I") if layout else 1 - out
    lost = np.moveaxis(site.weights.value - weights.floats, (depth, out), (0, 1))
    lost = lost.reshape(*lost.shape[:2], -1).sum(axis=2)
    groups = means.reshape(site.roles.groups, -1)  # each has its own share of the columns
    of_column = np.repeat(groups, lost.shape[1] // len(groups), axis=0)
    return np.einsum("nk,kn->n", of_column, lost)


class Rounding:
    """Makes sites contract integers; ``observed`` says what their factors are."""

    def __init__(
        self, sites: Sequence[Site], observed: Mapping[Var, Observed], scheme: Scheme
    ) -> None:
        self.sites = {site.var: site for site in sites}
        self.observed, self.scheme = observed, scheme
        self.multiplied = {a for site in sites for a in site.call.args if isinstance(a, Var)}
        self.integers: dict[Atom, Atom] = {}  # by factors; they stand for themselves

    def step(self, var: Var, value: Expr, builder: Builder) -> Atom | None:
        """Returns what stands for a binding: ``walk.Step``."""
        site = self.sites.get(var)
        made = None
        if site is not None and isinstance(value, Call):
            made = self.contracted(site, value, builder)
        if var not in self.multiplied:
            return made
        whole = builder.bind(value, var.type) if made is None else made
        made = self.rounded(whole, var, builder)
        self.integers[made] = made
        return made

    def rounded(self, x: Atom, original: Var, builder: Builder) -> Atom:
        """Returns a value as its integers stand for it."""
        parts = scale_of(self.observed[original], self.scheme)
        scale, zero = (Value(builder, Constant(np.array(part))) for part in parts)
        return F.nn.dequantize(F.nn.quantize(Value(builder, x), scale, zero), scale, zero).atom

    def contracted(self, site: Site, call: Call, builder: Builder) -> Atom:
        """Emits the contraction of integers; factors that no step has rounded are, once."""
        args = list(call.args)
        for place, (factor, original) in enumerate(zip(call.args, site.call.args, strict=True)):
            if isinstance(original, Var):
                if factor not in self.integers:
                    self.integers[factor] = self.rounded(factor, original, builder)
                args[place] = self.integers[factor]
        left = site.call.args[0]
        if site.weights is None or not isinstance(left, Var):
            return builder.emit(call.operator, args, call.attrs)
        weights = weights_of(site, self.scheme)
        zeros = np.zeros(weights.scales.shape, np.int8)
        arrays = (weights.integers, weights.scales, zeros)
        parts = [Value(builder, Constant(array)) for array in arrays]
        args[1] = F.nn.dequantize(*parts, axis=weights.axis).atom
        made = Value(builder, builder.emit(call.operator, args, call.attrs))
        if self.scheme.correct_bias:
            lost = lost_means(site, weights, self.observed[left].means).astype(np.float32)
            shape = [-1 if axis == site.roles.channel else 1 for axis in range(made.rank)]
            made = made + Value(builder, Constant(lost.reshape(shape)))
        return made.atom
