"""Damaged and malicious ONNX models: ``python tests/fuzz/hostile_onnx_run.py --seeds 0:2000``.

The first cases are written by hand, the others are random models with bytes cut off, changed or
repeated. Each is imported, compiled and called in a process with little memory and time. It may
work; else it has to be a LoopwrightError whose message is one line.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import loopwright as lw
import numpy as np
from hostile_onnx import CASES, NAMES
from isolated import run_script
from random_onnx import draw_model
from run_onnx import SUPPORTED

MEMORY = 3 << 30
SECONDS = 20


def damaged(seed: int) -> bytes:
    """The bytes of a random model with some of them cut off, changed, repeated or removed."""
    rng = np.random.default_rng(seed)
    data = bytearray(draw_model(seed, SUPPORTED, most=5).model.SerializeToString())
    kind = rng.integers(4)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data)))
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at] = int(rng.integers(256))
        else:
            length = int(rng.integers(1, 40))
            data[at : at + length] = data[at : at + length] * int(rng.integers(0, 3))
        if not data:
            break
    return bytes(data)


def run(number: int, isa: str, schedules: bool) -> str:
    """What is wrong with a case: nothing, if it works or fails as it should."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(SECONDS)
    warnings.simplefilter("ignore")
    part = None
    with tempfile.TemporaryDirectory() as folder:
        if number < len(NAMES):
            print(f"  {NAMES[number]}", flush=True)
            make, part = CASES[NAMES[number]]
            source = make(Path(folder))
        else:
            source = damaged(number)
        try:
            compiled = lw.from_onnx(source, threads=1)
            lowered = compiled.lower()
            arrays = [np.ones(s.shape, s.dtype) for s in lowered.built.inputs]
            compiled(*arrays)
        except lw.LoopwrightError as error:
            text = error.message
            if "\n" in text or len(text) > 1000:
                return f"the message is not one line: {text[:300]!r}"
            if part is not None and (not part or part not in f"{text} {' '.join(error.notes)}"):
                return f"{type(error).__name__}: {text[:500]}"
            return ""
        except FileNotFoundError as error:
            return f"no LoopwrightError: {error}"
        except BaseException as error:
            return f"{type(error).__name__}: {str(error)[:500]}"
        finally:
            signal.alarm(0)
    return f"it works, and should be an error with {part!r}" if part else ""


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run_script(Path(__file__), run, ["any"])
