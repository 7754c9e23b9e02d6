"""``loopwright bench``: a function beside its NumPy form, or a model beside ONNX Runtime, which
runs in a process of its own, so that no thread or allocator is shared::

    ours                            its process
    a folder: feeds.npz    ---->    loads the model, runs it once
                           <----    results.npz, "ready"
    "0.2"                  ---->    calls for 0.2 seconds
                           <----    the least seconds of a call
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np

from ..codegen.target import Target
from ..doors.saved import SavedFunction
from ..face.module import CompiledModule
from ..text import seconds_text, table
from .log_files import existing_log
from .usage import UsageError
from .userfile import UserFunction, add_function_arguments, filled, load_function, load_saved


def is_there() -> bool:
    """True if ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


class Peer:
    """A process in which ONNX Runtime has loaded ``model``; a context manager.

    ``feeds`` are the inputs by name, ``threads`` None for as many as it likes. ``error`` says why
    it does not run, ``results`` are its outputs by name if it does.
    """

    def __init__(self, model: Path, feeds: Mapping[str, Any], threads: int | None) -> None:
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        names = list(feeds)  # a name may be no key of an .npz
        np.savez(folder / "feeds.npz", **{str(n): feeds[name] for n, name in enumerate(names)})
        (folder / "names.txt").write_text("\n".join(names))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(model), str(folder), str(threads or 0)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.results: list[Any] = []
        self.error = ""
        if self._answer() == "ready":
            with np.load(folder / "results.npz") as loaded:
                self.results = [loaded[str(n)] for n in range(len(loaded.files))]
        else:
            assert self._process.stderr is not None
            lines = self._process.stderr.read().strip().splitlines()
            self.error = lines[-1] if lines else "its process ended"

    def least_seconds(self, seconds: float) -> float:
        """Returns the least seconds of the calls that it makes for ``seconds``."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        return float(self._answer() or "inf")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


_PROGRAM = """\
import sys, time
import numpy as np
import onnxruntime
model, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
arrays = np.load(folder + "/feeds.npz")
names = open(folder + "/names.txt").read().split("\\n")
feeds = {name: arrays[str(n)] for n, name in enumerate(names) if name}
results = session.run(None, feeds)
np.savez(folder + "/results.npz", **{str(n): r for n, r in enumerate(results)})
print("ready", flush=True)
for line in sys.stdin:
    end, best, calls = time.perf_counter() + float(line), float("inf"), 0
    while calls < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        best = min(best, time.perf_counter() - start)
        calls += 1
    print(best, flush=True)
"""
"""The process: it needs nothing of ours."""


HELP = "how fast is my function, beside NumPy, or my model, beside ONNX Runtime?"
DESCRIPTION = "Time a compiled function and the plain Python function behind it, or a model."
EXAMPLES = """\
examples:
  loopwright bench net.py:predict                     as compiled without a log
  loopwright bench net.py:predict --log net.jsonl     with what tuning has found
  loopwright bench net.py:layer --arg 'x=f32[1000,512]' --threads 1
  loopwright bench model.onnx                         beside ONNX Runtime, if it is installed
  loopwright bench model.onnx --arg 'image=f32[1,3,224,224]'
  loopwright bench net.lw                             saved by loopwright save

Both get the same arrays and run alternately, so that what disturbs the machine disturbs both. The
results are compared first. NumPy uses the threads it was built for (OMP_NUM_THREADS=1 for one);
ONNX Runtime runs in a process of its own, with as many as our code.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``bench``."""
    add_function_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seconds", type=float, default=2.0, help="time to spend (2)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    log = None if args.log is None else str(existing_log(args.log))
    if Path(args.function).suffix == ".lw":
        return _run_saved(load_saved(args.function, args.arg, log, args.threads), args.seconds)
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    if isinstance(user.compiled, CompiledModule) and Path(args.function).suffix == ".onnx":
        return _run_model(user, user.compiled, args.seconds)
    positional, named = user.arrays()
    plain_args, plain_named = copy.deepcopy((positional, named))  # a function may change them
    start = time.perf_counter()
    ours = user.compiled(*positional, **named)
    compiling = time.perf_counter() - start
    difference = _difference(ours, _plain(user, plain_args, plain_named))
    first, second = _interleaved(
        lambda: user.compiled(*positional, **named),
        lambda: user.plain(*plain_args, **plain_named),
        args.seconds,
    )
    rows = [
        ("loopwright", seconds_text(first), f"{second / first:.2f}x"),
        ("python", seconds_text(second), "1.00x"),
    ]
    print(f"{user.name}   compiled in {compiling:.2f} s   {difference}")
    print(table(("", "per call", "speed"), rows))
    return 0


def _run_saved(saved: SavedFunction, seconds: float) -> int:
    """Times a saved function, beside which there is nothing to run."""
    rng = np.random.default_rng(0)
    arrays = {n: filled(s, rng) for n, s in zip(saved.inputs, saved.specs, strict=True)}
    saved.run(arrays)
    print(f"{saved.name}   of {saved.path}, for {saved.target.isa}")
    best = _sample(lambda: saved.run(arrays), seconds)
    print(table(("", "per call"), [("loopwright", seconds_text(best))]))
    return 0


def _run_model(user: UserFunction, compiled: CompiledModule, seconds: float) -> int:
    """Times a model beside ONNX Runtime, or alone."""
    arrays, _ = user.arrays()
    start = time.perf_counter()
    ours = compiled(*arrays)
    compiling = time.perf_counter() - start
    head = f"{user.name}   compiled in {compiling:.2f} s"
    if not is_there():
        best = _sample(lambda: compiled(*arrays), seconds)
        print(f"{head}   onnxruntime is not installed, so nothing stands beside it")
        print(table(("", "per call"), [("loopwright", seconds_text(best))]))
        return 0
    feeds = dict(zip(compiled.inputs, arrays, strict=True))
    with Peer(Path(user.name), feeds, compiled.threads or Target.host().cores) as peer:
        if peer.error:
            best = _sample(lambda: compiled(*arrays), seconds)
            print(f"{head}   onnxruntime does not run it: {peer.error}")
            print(table(("", "per call"), [("loopwright", seconds_text(best))]))
            return 0
        theirs = peer.results if len(peer.results) != 1 else peer.results[0]
        difference = _difference(ours, theirs)
        best, peer_best = float("inf"), float("inf")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or peer_best == float("inf"):
            best = min(best, _sample(lambda: compiled(*arrays), seconds / 10))
            peer_best = min(peer_best, peer.least_seconds(seconds / 10))
    rows = [
        ("loopwright", seconds_text(best), f"{peer_best / best:.2f}x"),
        ("onnxruntime", seconds_text(peer_best), "1.00x"),
    ]
    print(f"{head}   {difference}")
    print(table(("", "per call", "speed"), rows))
    return 0


def _plain(user: UserFunction, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        return user.plain(*positional, **named)
    except Exception as error:
        raise UsageError(
            f"{user.name} does not run as plain Python: {type(error).__name__}: {error}"
        ) from error


def _difference(ours: Any, theirs: Any) -> str:
    """Returns the greatest relative difference of two results in words."""
    pairs = zip(ours, theirs) if isinstance(ours, tuple | list) else [(ours, theirs)]
    worst = 0.0
    for a, b in pairs:
        if not isinstance(a, np.ndarray | np.generic) or np.shape(a) != np.shape(b):
            return "results not compared"
        wide = np.asarray(b, np.float64)
        scale = float(np.max(np.abs(wide), initial=0.0)) or 1.0
        error = np.max(np.abs(np.asarray(a, np.float64) - wide), initial=0.0) / scale
        worst = max(worst, float(error))
    return f"results agree to {worst:.0e}" if worst < 1e-2 else f"RESULTS DIFFER by {worst:.0e}"


def _interleaved(
    one: Callable[[], Any], other: Callable[[], Any], seconds: float
) -> tuple[float, float]:
    """Returns the least seconds per call of two functions, measured alternately."""
    best = [float("inf"), float("inf")]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or best[1] == float("inf"):
        for which, call in enumerate((one, other)):
            best[which] = min(best[which], _sample(call, seconds / 10))
    return best[0], best[1]


def _sample(call: Callable[[], Any], seconds: float) -> float:
    start, calls = time.perf_counter(), 0
    best = float("inf")
    while calls < 2 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - before)
        calls += 1
    return best
