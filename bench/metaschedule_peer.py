"""TVM's MetaSchedule in a process of its own: it searches one workload, then times what it found.

JSON in the first line of the input says what: ``{"kind": ..., "params": ..., "trials": ...,
"threads": ..., "folder": ...}``. The answers are JSON lines: ``{"at": ..., "best": ...}`` whenever
a better candidate was measured, ``{"seconds": ..., "wrong": ...}`` at the end of the search, then
``{"call": ...}``, the seconds of a call, for every further line of the input.

TVM parses its tensor intrinsics when they are first loaded, and for each of them asks Python for
the source lines of all frames on the stack. With the modules it imports that takes half a minute
per process, longer than a builder is given for a candidate, so that nothing is ever built. Here
the lines are left out, in its builders as well, and the clock starts when all is loaded.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from .answers import time_round
from .families import make
from .workload import Workload, wrongness

__all__ = ["main"]

_QUICK_STACK = """import inspect
_stack = inspect.stack
inspect.stack = lambda context=1: _stack(0)
"""
_PER_ITERATION = 16
_BUILD_SECONDS = 60.0
_ROUND = 0.05


def _definition(workload: Workload) -> Any:
    """The workload as tensor expressions of TVM. KeyError if it is none of those written here."""
    from tvm import te, topi

    places = [te.placeholder(i.shape, i.dtype, name=n) for n, i in workload.inputs.items()]
    sizes = workload.params
    if workload.kind in ("conv", "conv_1x1", "conv_first", "depthwise"):
        image, weights = places
        pad, stride = sizes["kernel"] // 2, sizes.get("stride", 1)
        if sizes.get("groups", 1) == 1:
            made = topi.nn.conv2d_nchw(image, weights, stride, pad, 1)
        else:
            made = topi.nn.depthwise_conv2d_nchw(image, weights, stride, pad, 1)
    elif workload.kind in ("matmul", "skinny"):
        made = topi.matmul(*places)
    elif workload.kind == "softmax" and not sizes.get("log"):
        made = topi.nn.softmax(places[0])
    else:
        raise KeyError(f"no definition of {workload.kind} in TVM's terms")
    return te.create_prim_func([*places, made])


def _search(function: Any, target: Any, command: dict[str, Any], tell: Any) -> tuple[Any, float]:
    """The best candidate's code and the seconds of the search."""
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    begun = time.monotonic()
    best = float("inf")

    class Note(ms.measure_callback.PyMeasureCallback):
        def apply(self, *given: Any) -> None:
            nonlocal best
            for result in given[-1]:
                seconds = [float(s) for s in result.run_secs or ()]
                if seconds and min(seconds) < best:
                    best = min(seconds)
                    tell(at=time.monotonic() - begun, best=best)

    callbacks = ms.measure_callback
    database = ms.tune_tir(
        function,
        target,
        command["folder"],
        max_trials_global=command["trials"],
        num_trials_per_iter=_PER_ITERATION,
        builder=ms.builder.LocalBuilder(
            max_workers=len(os.sched_getaffinity(0)), timeout_sec=_BUILD_SECONDS
        ),
        runner=ms.runner.LocalRunner(timeout_sec=_BUILD_SECONDS),
        measure_callbacks=[
            callbacks.AddToDatabase(),
            callbacks.RemoveBuildArtifact(),
            callbacks.UpdateCostModel(),
            derived_object(Note)(),
        ],
        num_tuning_cores=len(os.sched_getaffinity(0)),
        seed=1,
    )
    spent = time.monotonic() - begun
    schedule = ms.tir_integration.compile_tir(database, function, target)
    if schedule is None:
        raise RuntimeError("no candidate was measured")
    return tvm.compile(schedule.mod, target), spent


def main() -> int:
    """Serve one workload."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever TVM prints is not an answer

    def tell(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    command = json.loads(sys.stdin.readline())
    site = Path(command["folder"]) / "site"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(_QUICK_STACK)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    os.environ["TVM_NUM_THREADS"] = str(command["threads"])
    stack = inspect.stack
    inspect.stack = lambda context=1: stack(0)
    import tvm
    import tvm.s_tir.tensor_intrin
    from llvmlite.binding import get_host_cpu_name

    workload = make(command["kind"], command["params"])
    function = _definition(workload)
    host = {"kind": "llvm", "mcpu": get_host_cpu_name(), "num-cores": command["threads"]}
    code, spent = _search(function, tvm.target.Target(host), command, tell)
    expected = workload.expected()
    arrays = [*workload.arrays().values(), np.empty(expected.shape, np.float32)]
    arguments = [tvm.runtime.tensor(a) for a in arrays]
    run = code["main"]
    run(*arguments)
    tell(seconds=spent, wrong=wrongness(workload, arguments[-1].numpy(), expected))
    for _ in sys.stdin:
        tell(call=time_round(lambda: run(*arguments), _ROUND))
    return 0


if __name__ == "__main__":
    sys.exit(main())
