"""The array features agree with those read off the applied loop nest."""

import numpy as np
import pytest
from loopwright.autotune.space.feature_list import FEATURE_NAMES
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import Target
from loopwright.ir.schedule.apply import apply_schedule
from nest_features import nest_features
from prims import make_prim

WORKLOADS = [
    ("matmul", (64, 96, 50)),
    ("matmul", (13, 70, 37)),
    ("matmul", (3, 5, 7)),
    ("rows", (40, 33, 1)),
    ("map", (30, 70, 1)),
    ("convolution", (28, 8, 32)),
    ("outer_sum", (50, 130, 1)),
    ("gram", (100, 40, 1)),
]


@pytest.mark.parametrize("kind, sizes", WORKLOADS)
def test_features_are_those_of_the_nest(kind, sizes):
    prim = make_prim(kind, *sizes, dtype="float32")
    space = ScheduleSpace(prim, Target.host())
    rng = np.random.default_rng(1)
    rows = np.concatenate([space.default(), space.sample(30, rng)])
    features = space.features(rows)
    for row, columns in zip(rows, features, strict=True):
        sketch = space.variants[int(row[0])].sketch
        nest = apply_schedule(prim, space.schedule(row))
        shown = nest_features(nest, sketch.group.main, sketch.lanes)
        for name, value in shown.items():
            if name == "packed":
                expected = columns[FEATURE_NAMES.index(name)]
            else:
                expected = 2.0 ** columns[FEATURE_NAMES.index(name)]
            assert expected == pytest.approx(value), f"{name}: {space.choices(row)}\n{nest}"
