"""What the rules propose without a log lies in the space: else another rule's choice is taken."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import FEATURES, ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

KINDS = ("float32", "float64", "int32", "int8")


def product(rng: np.random.Generator) -> PrimFunc:
    """A product of matrices, either one transposed, the right one perhaps constant."""
    m, k, n = (int(2 ** rng.uniform(1, 13)) for _ in range(3))
    kind = str(rng.choice(KINDS))
    total = "int32" if kind == "int8" else kind
    left, right = (rng.permutation([a, b]) for a, b in (("i", "k"), ("k", "j")))
    sizes = {"i": m, "k": k, "j": n}
    shapes = [", ".join(str(sizes[a]) for a in axes) for axes in (left, right)]
    factors = (f"x[{', '.join(left)}]", f"w[{', '.join(right)}]")
    if kind == "int8":
        factors = tuple(f"int32({f})" for f in factors)
    known = " const" if rng.random() < 0.5 else ""
    return parse_prim(
        f"prim @f(x: {kind}[{shapes[0]}], w: {kind}[{shapes[1]}]{known}) -> t: {total}[{m}, {n}] "
        f"{{\n  t[i, j] = sum(k: {k}) {' * '.join(factors)}\n}}"
    )


@pytest.mark.parametrize("isa", ISA_LEVELS)
@pytest.mark.parametrize("cores", [1, 2, 16])
def test_proposals_for_products_fit(isa: str, cores: int) -> None:
    rng = np.random.default_rng(cores)
    features = frozenset(n for n, f in FEATURES.items() if isa in f.levels and "amx" not in n)
    target = Target(isa, "test", cores, 48 << 10, 2 << 20, 32 << 20, features)
    for _ in range(20):
        prim = product(rng)
        for variant in ScheduleSpace(prim, target).variants:
            for choices in variant.defaults:
                values = {name: np.array([value]) for name, value in choices.items()}
                assert variant.sketch.fits(values).all(), (variant.name, choices, str(prim))
