"""Every operator that is registered is drawn, as a kernel, by the fuzzers of schedules and of the
gate."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from loopwright.ir.loop.expr import Op, walk
from loopwright.ir.loop.nest import Sort, expressions, statements
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.procedure import Procedure
from loopwright.ir.loop.scalar import COMBINERS, SCALAR_OPS
from loopwright.ir.ops import all_operators
from loopwright.ir.traits import Trait
from small_kernels import PROGRAMS, draw_kernel

from bench.gate.operator_kernels import KINDS, draw_kernels, draw_kind

TRIES = 30


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[PrimFunc]]:
    """Kernels of each kind: the first that are drawn, and those of three more draws."""
    rng = random.Random(5)
    found: dict[str, list[PrimFunc]] = {}
    for kind in KINDS:
        draws = (draw_kernels(rng, kind) for _ in range(TRIES))
        found[kind] = next((prims for prims in draws if prims), [])
        for _ in range(3):
            found[kind] += draw_kernels(rng, kind)
    return found


def test_every_operator_becomes_a_kernel(drawn) -> None:
    assert [kind for kind, prims in drawn.items() if not prims] == []


def test_only_what_a_library_or_nothing_computes_has_no_kernel() -> None:
    others = all_operators().keys() - set(KINDS)
    assert all(all_operators()[n].traits & (Trait.LIBRARY | Trait.UNSET) for n in others)
    assert [n for n in others if Trait.UNSET in all_operators()[n].traits] == ["empty"]


def test_kernels_of_every_structure_are_among_them(drawn) -> None:
    prims = [prim for prims in drawn.values() for prim in prims]
    procedures = [p for p in prims if isinstance(p, Procedure)]
    assert any(p.begins for p in procedures)
    assert any(isinstance(s, Sort) for p in procedures for s in statements(p.body))
    dtypes = {b.dtype.name for p in prims for b in p.buffers.values()}
    integers = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    assert dtypes >= {"bool", "float16", "float32", "float64", *integers}
    inside = {name for name, op in SCALAR_OPS.items() if op.internal}  # schedules introduce them
    assert {s.combiner for p in prims for s in p.stages} >= {None, *COMBINERS} - inside
    exprs = [s.expr for p in prims for s in p.stages]
    exprs += [e for p in procedures for s in statements(p.body) for e in expressions(s)]
    scalars = {node.name for e in exprs for node in walk(e) if isinstance(node, Op)}
    assert scalars >= SCALAR_OPS.keys() - inside


def test_all_kinds_are_drawn_by_chance() -> None:
    rng = random.Random(1)
    kinds = Counter(draw_kind(rng) for _ in range(60 * len(KINDS)))
    assert kinds.keys() == set(KINDS)
    programs = {make.__name__ for make in PROGRAMS}
    some = {draw_kernel(rng)[0] for _ in range(40)}
    assert some & programs and some & set(KINDS)
