"""ONNX Runtime beside our code, in a process of its own: no thread or allocator is shared.

::

    ours                            its process
    a folder: feeds.npz    ---->    loads the model, runs it once
                           <----    results.npz, "ready"
    "0.2"                  ---->    calls for 0.2 seconds
                           <----    the least seconds of a call
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np


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
