"""Random schedules, made step by step against the state so that most steps name what is there."""

from __future__ import annotations

import random
from math import prod

from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.schedule import primitives
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule, Step, split

__all__ = ["random_schedule"]

LIKELY = ("split", "split", "split", "cut", "reorder", "compute_at", "compute_at", "cache_write")
STAGES_ONLY = ("compute_inline", "stream")


def random_step(rng: random.Random, state: State) -> Step:
    """A step whose arguments exist; whether it is legal is for the primitive to say."""
    name = rng.choice([*sorted(primitives()), *LIKELY])
    stages = [s.name for s in state.prim.stages]
    axes = list(state.extents) or ["i"]
    if name == "split":
        axis = rng.choice(axes)
        inner = [rng.randint(1, 5) for _ in range(rng.choice((1, 1, 2)))]
        return split(axis, (max(1, -(-state.extents[axis] // prod(inner))), *inner))
    if name == "fuse":
        at, count = rng.randrange(len(state.order)), rng.choice((2, 2, 3))
        return Step("fuse", (state.order[at : at + count],))
    if name == "cut":
        axis = rng.choice(axes)
        points = rng.sample(range(1, state.extents[axis] + 1), min(2, state.extents[axis]))
        return Step(name, (axis, tuple(sorted(points))))
    if name == "pack":
        params = [p.name for p in state.prim.params]
        return Step("pack", (rng.choice(params), rng.choice(axes), rng.randint(1, 4)))
    if name == "pack_grouped":
        params = [p.name for p in state.prim.params]
        tile, group = rng.randint(1, 4), rng.randint(1, 4)
        return Step(name, (rng.choice(params), rng.choice(axes), tile, rng.choice(axes), group))
    if name == "shift_bytes":
        return Step(name, (rng.choice(stages), rng.choice([*state.packs, *axes])))
    if name == "pack_at":
        params = [p.name for p in state.prim.params]
        return Step(
            name, (rng.choice(params), rng.choice(axes), rng.randint(1, 4), rng.choice(state.order))
        )
    if name == "split_reduction":
        return Step(name, (rng.choice(stages), rng.choice(axes), rng.randint(2, 4)))
    if name == "cache_write":
        scope = rng.choice(("registers", "stack"))
        return Step(name, (rng.choice(stages), scope, rng.choice(state.order)))
    if name == "peel":
        return Step(name, (rng.choice(state.order), rng.randint(0, 2), rng.randint(0, 2)))
    if name == "cache_read":
        buffers = list(state.prim.buffers)
        return Step(name, (rng.choice(buffers), tuple(rng.sample(axes, rng.randint(0, len(axes))))))
    if name == "prefetch":
        operands = [p.name for p in state.prim.params] + list(state.packs)
        loop, turns = rng.choice(state.order), rng.randint(1, 3)
        return Step(name, (rng.choice(stages), rng.choice(operands), loop, turns))
    if name == "prefetch_next":
        packed = [*state.packs] or [p.name for p in state.prim.params]
        return Step(name, (rng.choice(stages), rng.choice(packed), rng.choice(state.order)))
    if name == "tensorize":
        return Step(name, (rng.choice(state.order), rng.choice(("vnni", "bf16", "amx"))))
    if name == "layout":
        stage = rng.choice(state.prim.stages)
        own = [a.name for a in stage.axes]
        return Step(name, (stage.name, tuple(rng.sample(own, len(own)))))
    if name == "own_axis":
        return Step(name, (rng.choice(stages), rng.choice(axes)))
    if name == "blockwise":
        return Step(name, (rng.choice(stages), rng.randint(2, 4)))
    args: list[object] = []
    kinds = primitives()[name].kinds
    for kind in kinds:
        if kind == "names":
            count = min(len(state.order), rng.choice((2, 3, 4, 99)))
            args.append(tuple(rng.sample(state.order, count)))
        elif (not args and len(kinds) == 2) or name in STAGES_ONLY:
            args.append(rng.choice(stages))
        else:
            args.append(rng.choice(state.order))
    return Step(name, tuple(args))


def random_schedule(rng: random.Random, state: State) -> Schedule:
    steps: list[Step] = []
    for _ in range(rng.randint(1, 9)):
        if not state.order:
            break
        step = random_step(rng, state)
        try:
            state = step.apply(state)
        except ScheduleError:
            continue
        steps.append(step)
    return Schedule(tuple(steps))
