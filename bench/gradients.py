"""Derivatives beside JAX's: ``python -m bench.gradients``.

25 functions of ``gradient_programs.py`` under seven transformations each, in float64 on one thread:
the greatest relative difference, the time of a call, and that of the first call. JAX is that of the
interpreter that ``NUMBA_PYTHON`` names, as for the other benches, else of this one.

``--costs`` times the gradients and the products with second derivatives of ``cost_programs.py``
beside the values; the bars are 3 and 8 times as long. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SEED = 3
ROUNDS = 30
"""Calls of which the fastest counts."""

GRADIENT_BAR, SECOND_BAR = 3.0, 8.0


def _programs() -> Any:
    sys.path.insert(0, str(Path(__file__).parent))
    import gradient_programs

    return gradient_programs


def _ours() -> tuple[Any, Any, Any]:
    import loopwright as lw

    def put(x: Any, at: Any, value: Any) -> Any:
        y = x.copy()
        y[at] = value
        return y

    extra = {"scan": lw.scan, "fori": lw.fori_loop, "cond": lw.cond, "put": put}
    names = ("grad", "jvp", "vjp", "hessian", "vmap")
    t = SimpleNamespace(stack=np.stack, **{n: getattr(lw, n) for n in names})
    return _Namespace(np, extra), t, lambda f: lw.compile(f, threads=1)


def _jax() -> tuple[Any, Any, Any]:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax  # type: ignore[import-not-found]

    jax.config.update("jax_enable_x64", True)
    lax, jnp = jax.lax, jax.numpy
    extra = {
        "scan": lax.scan,
        "fori": lax.fori_loop,
        "cond": lax.cond,
        "put": lambda x, at, value: x.at[at].set(value),
    }
    names = ("grad", "jvp", "vjp", "hessian", "vmap")
    t = SimpleNamespace(stack=jnp.stack, **{n: getattr(jax, n) for n in names})

    def compiled(f: Any) -> Any:
        jitted = jax.jit(f)
        return lambda *args: np.asarray(jitted(*args))

    return _Namespace(jnp, extra), t, compiled


class _Namespace:
    def __init__(self, module: Any, extra: dict[str, Any]) -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        return self._extra[name] if name in self._extra else getattr(self._module, name)


def run(peer: str, only: str) -> dict[tuple[str, str], Any]:
    """Returns (result, seconds of a call, seconds of the first) by program and transformation; the
    text of the error, for one that fails."""
    p = _programs()
    m, t, compiled = _ours() if peer == "ours" else _jax()
    rng = np.random.default_rng(SEED)
    x, v = rng.uniform(0.5, 1.5, 8), rng.uniform(-1, 1, 8)
    rows: dict[tuple[str, str], Any] = {}
    for name, program in p.SCALAR.items():
        for transform in p.TRANSFORMS:
            if only not in f"{name}.{transform}":
                continue
            f = compiled(p.transformed(t, transform, lambda x, program=program: program(m, x)))
            try:
                start = time.perf_counter()
                result = f(x, v)
                first = time.perf_counter() - start
                times = [_timed(f, x, v) for _ in range(ROUNDS)]
                rows[name, transform] = np.array(result), min(times), first
            except Exception as error:
                rows[name, transform] = f"{type(error).__name__}: {error}"
    return rows


def _timed(f: Any, *args: Any) -> float:
    start = time.perf_counter()
    f(*args)
    return time.perf_counter() - start


def costs(only: str) -> int:
    """Prints what derivatives cost beside the values; returns the exit status."""
    import loopwright as lw

    from .cost_programs import PROGRAMS
    from .lock import MachineLock

    rows: list[tuple[float, ...]] = []
    print(f"{'':24}  forward us  gradient    hvp")
    with MachineLock() as lock:
        for name, (f, shape) in PROGRAMS.items():
            if only not in name:
                continue
            lock.between()
            rng = np.random.default_rng(SEED)
            x, v = rng.uniform(0.5, 1.5, shape), rng.uniform(-1, 1, shape)
            second = lambda x, v, f=f: lw.hvp(f, (x,), (v,))  # noqa: E731
            seconds: list[float] = []
            for g, args in ((f, (x,)), (lw.grad(f), (x,)), (second, (x, v))):
                compiled = lw.compile(g, threads=1)
                compiled(*args)
                seconds.append(min(_timed(compiled, *args) for _ in range(ROUNDS)))
            rows.append((seconds[1] / seconds[0], seconds[2] / seconds[0]))
            print(f"{name:24} {seconds[0] * 1e6:11.1f} {rows[-1][0]:9.2f} {rows[-1][1]:6.2f}")
    met = True
    for kind, ratios, bar in zip(("gradient", "hvp"), zip(*rows), (GRADIENT_BAR, SECOND_BAR)):
        inside = sum(r <= bar for r in ratios)
        met &= inside == len(ratios)
        mean = np.exp(np.mean(np.log(ratios)))
        print(f"{kind}: geometric mean {mean:.2f}, {inside} of {len(ratios)} within {bar:g}")
    return 0 if met else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of program.transformation")
    parser.add_argument("--costs", action="store_true", help="beside the values, not JAX's")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        Path(args.out).write_bytes(pickle.dumps(run(args.peer, args.only)))
        return
    if args.costs:
        if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # is read when NumPy is imported
            os.environ["OPENBLAS_NUM_THREADS"] = "1"
            os.execv(sys.executable, [sys.executable, "-m", "bench.gradients", *sys.argv[1:]])
        sys.exit(costs(args.only))
    with tempfile.TemporaryDirectory() as folder:
        rows: dict[str, Any] = {}
        for peer in ("ours", "jax"):
            python = (
                os.environ.get("NUMBA_PYTHON", sys.executable) if peer == "jax" else sys.executable
            )
            out = str(Path(folder) / peer)
            command = [python, __file__, "--peer", peer, "--out", out, "--only", args.only]
            subprocess.run(command, check=True)
            rows[peer] = pickle.loads(Path(out).read_bytes())
    ours, theirs = rows["ours"], rows["jax"]
    worst, speed, first = 0.0, [], []
    for key, row in ours.items():
        other = theirs[key]
        if isinstance(row, str) or isinstance(other, str):
            words = [each if isinstance(each, str) else "fine" for each in (row, other)]
            print(f"{'.'.join(key)}: ours {words[0]}, JAX {words[1]}")
            continue
        scale = max(1e-300, float(np.abs(other[0]).max()))
        distance = float(np.abs(row[0] - other[0]).max()) / scale
        worst = max(worst, distance)
        speed.append(other[1] / row[1])
        first.append(other[2] / row[2])
        note = "  DIFFERS" if not distance <= 1e-9 else ""
        times = f"{row[1] * 1e6:9.2f} us {speed[-1]:7.2f}x {first[-1]:6.2f}x"
        print(f"{'.'.join(key):40} {distance:8.1e} {times}{note}")
    calls, firsts = (np.exp(np.mean(np.log(each))) for each in (speed, first))
    print(
        f"{len(speed)} of {len(ours)} ran, greatest difference {worst:.1e}; "
        f"calls {calls:.2f}x JAX, first calls {firsts:.2f}x"
    )


if __name__ == "__main__":
    main()
