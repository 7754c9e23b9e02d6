"""Profiles: ranges, histograms and channels of the values of a program on samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..face.module import build
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError
from ..ir.graph.compose import F, Value
from ..ir.graph.nodes import Module, Var
from .sites import Site, extended, results_of, with_results

BINS = 2048
"""Bins of a histogram: eight for each integer of a byte."""

SCHEMA = 1
"""The version of the files of profiles."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A value on all samples: its ``least`` and ``greatest`` element, the ``counts`` of its
    elements in so many equal bins from one to the other, and of each channel that a contraction
    sums over the mean, and the greatest element without its sign."""

    least: float
    greatest: float
    counts: Array
    means: Array
    peaks: Array


@dataclass(frozen=True, slots=True)
class Profile:
    """Observations by the names of values, on so many ``samples``, which are calls."""

    values: Mapping[str, Observed]
    samples: int

    def save(self, path: str | Path) -> None:
        """Writes the profile as JSON. Raises OSError if the file cannot be written."""
        rows = {
            name: {key: np.asarray(getattr(v, key)).tolist() for key in Observed.__annotations__}
            for name, v in self.values.items()
        }
        text = json.dumps({"schema": SCHEMA, "samples": self.samples, "values": rows})
        Path(path).write_text(text)

    @staticmethod
    def load(path: str | Path) -> Profile:
        """Reads a profile. Raises LoopwrightValueError for a file that is none, OSError if it
        cannot be read."""
        try:
            data = json.loads(Path(path).read_text())
            if data["schema"] != SCHEMA:
                raise ValueError(f"schema {data['schema']}")
            values = {str(name): _observed(row) for name, row in data["values"].items()}
            return Profile(values, int(data["samples"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise LoopwrightValueError(f"{path} does not hold a profile: {error}") from None


def _observed(row: Mapping[str, Any]) -> Observed:
    least, greatest = float(row["least"]), float(row["greatest"])
    counts = np.array(row["counts"], np.int64)
    if not np.isfinite([least, greatest]).all() or least > greatest or counts.shape != (BINS,):
        raise ValueError(f"a range from {least} to {greatest} with {counts.size} bins")
    means, peaks = (np.array(row[key], np.float64).reshape(-1) for key in ("means", "peaks"))
    return Observed(least, greatest, counts, means, peaks)


def observe(
    module: Module,
    values: Mapping[str, Var],
    sites: Sequence[Site],
    samples: Sequence[Sequence[Array]],
    options: Mapping[str, Any],
) -> Profile:
    """Runs a program on samples, twice each: for the ranges of values, then for their histograms.

    Raises LoopwrightValueError if there are no samples, or values that are not finite.
    """
    if not samples:
        raise LoopwrightValueError("there are no samples to learn ranges from")
    axes = {s.call.args[0]: s.depth_axis for s in reversed(sites)}
    builder = extended(module)
    parts: list[Any] = []
    for var in values.values():
        x = Value(builder, var)
        others = tuple(n for n in range(x.rank) if n != axes.get(var, x.rank - 1))
        parts += [F.min(x), F.max(x), F.mean(x, axis=others), F.max(abs(x), axis=others)]
    first = build(with_results(module, builder, [p.atom for p in parts]), **options)
    seen = [results_of(first, sample) for sample in samples]
    observed: dict[str, Observed] = {}
    for number, name in enumerate(values):
        low, high, means, peaks = zip(*(row[4 * number : 4 * number + 4] for row in seen))
        least, greatest = float(np.min((0.0, *low))), float(np.max((0.0, *high)))  # nan stays
        if not np.isfinite([least, greatest]).all():
            raise LoopwrightValueError(f"{name} is {least} to {greatest} on the samples")
        none = np.zeros(BINS, np.int64)
        mean, peak = np.mean(means, axis=0), np.max(peaks, axis=0)
        observed[name] = Observed(least, greatest, none, mean, peak)
    return Profile(_with_counts(module, values, observed, samples, options), len(samples))


def _with_counts(
    module: Module,
    values: Mapping[str, Var],
    observed: Mapping[str, Observed],
    samples: Iterable[Sequence[Array]],
    options: Mapping[str, Any],
) -> dict[str, Observed]:
    builder = extended(module)
    parts: list[Value] = []
    for name, var in values.items():
        x, ends = Value(builder, var), observed[name]
        width = (ends.greatest - ends.least) / BINS or 1.0
        bin_of = F.cast((F.reshape(x, newshape=(-1,)) - ends.least) / width, dtype="int32")
        parts.append(F.count(F.minimum(bin_of, BINS - 1), bins=BINS))
    second = build(with_results(module, builder, [p.atom for p in parts]), **options)
    total = np.zeros((len(values), BINS), np.int64)
    for sample in samples:
        total += np.array(results_of(second, sample))
    return {
        name: replace(seen, counts=counts)
        for (name, seen), counts in zip(observed.items(), total, strict=True)
    }
