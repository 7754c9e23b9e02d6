"""Fused groups of random programs become PrimFuncs that are well formed and read back."""

from hypothesis import given, settings
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.simplify_prim import canonical_prim
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.loop.workload import workload_text
from loopwright.ir.schedule.apply import apply_schedule
from random_graphs import random_modules


@settings(max_examples=25)
@given(random_modules())
def test_groups_of_random_programs(module):
    for prim in kernels_of(lower_module(module)).values():
        verify_prim(prim)
        assert parse_prim(str(prim)) == prim
        again = canonical_prim(prim)
        verify_prim(again)
        assert workload_text(again) == workload_text(canonical_prim(again))
        schedule, _ = default_schedule(prim, Target.host())
        nest = apply_schedule(prim, schedule)
        verify_nest(nest)
        assert parse_nest(str(nest)) == nest
