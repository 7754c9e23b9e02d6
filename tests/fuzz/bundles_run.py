"""Networks as bundles, run by C or by Node: ``python tests/fuzz/bundles_run.py --targets wasm32``.

Prints the size of each object, what it needs, and how far the results of the example are from those
of this process. Targets are run by emulators where these are installed: ``apt install qemu-user
gcc-aarch64-linux-gnu gcc-riscv64-linux-gnu nodejs``. PyTorch makes the two large networks.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np

RNG = np.random.default_rng(0)


def _normal(*shape: int, scale: float = 1.0) -> Any:
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


def _vision(name: str, folder: Path) -> Any:
    import torch

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from bench.nets.models import made

    net, path = made(name), folder / f"{name}.onnx"
    if not path.exists():
        inputs = tuple(net.inputs.values())
        torch.onnx.export(
            net.module, inputs, path, input_names=["x"], output_names=["y"], dynamo=False
        )
    return lw.from_onnx(path)


def resnet18(folder: Path) -> Any:
    return _vision("resnet18", folder).lower()


def mobilenetv2(folder: Path) -> Any:
    return _vision("mobilenetv2", folder).lower()


def mobilenetv2_int8(folder: Path) -> Any:
    samples = [{"x": _normal(1, 3, 224, 224)} for _ in range(4)]
    return lw.quantize(_vision("mobilenetv2", folder), samples).lower()


def gru(folder: Path) -> Any:
    w, u = _normal(3, 16, 32, scale=0.2), _normal(3, 32, 32, scale=0.2)

    def run(x: Any, h: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            reset = lw.nn.sigmoid(x[i] @ w[0] + h @ u[0])
            update = lw.nn.sigmoid(x[i] @ w[1] + h @ u[1])
            return (1 - update) * h + update * np.tanh(x[i] @ w[2] + (reset * h) @ u[2])

        return lw.fori_loop(0, len(x), step, h)

    return lw.compile(run).lower(lw.f32[400, 16], lw.f32[32])


def mlp(folder: Path) -> Any:
    w1, w2 = _normal(784, 256, scale=0.05), _normal(256, 10, scale=0.1)
    run = lw.compile(lambda x: lw.nn.softmax(np.maximum(x @ w1, 0) @ w2))
    return run.lower(lw.f32[lw.Dim("n", min=1, max=256), 784])


def digits(folder: Path) -> Any:
    k1, k2, w = _normal(3, 3, 1, 16), _normal(3, 3, 16, 32, scale=0.1), _normal(128, 10, scale=0.1)

    def run(x: Any) -> Any:
        for kernel in k1, k2:
            x = lw.nn.conv2d(x, kernel, padding=1, data_layout="NHWC", kernel_layout="HWIO")
            x = lw.nn.max_pool2d(np.maximum(x, 0), pool_size=2, layout="NHWC")
        return lw.nn.softmax(x.reshape(len(x), -1) @ w)

    return lw.compile(run).lower(lw.f32[1, 8, 8, 1])


NETS = {f.__name__: f for f in (resnet18, mobilenetv2, mobilenetv2_int8, gru, mlp, digits)}
CROSS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "-static", "qemu-aarch64"),
    "riscv64": ("riscv64-linux-gnu-gcc", "-static", "qemu-riscv64 -cpu rv64,v=true,vlen=128"),
}


def commands(name: str, target: str, folder: Path) -> list[list[str]]:
    """The commands that build and run the example; none if something is not installed."""
    if target == "wasm32":
        return [["node", f"{name}_example.mjs", "--time"]] if shutil.which("node") else []
    compiler, flag, emulator = CROSS.get(target, ("cc", "-O1", ""))
    if not shutil.which(compiler):
        return []
    build = [compiler, flag, "-o", "example", f"{name}_example.c", f"{name}.o", "-lm"]
    return [build, [*emulator.split(), str(folder / "example"), str(folder)]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--targets", default="x86-64-v3,aarch64,riscv64,wasm32")
    parser.add_argument("--static", action="store_true", help="with static memory")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        for name in given.nets.split(","):
            lowered = NETS[name](root)
            for target in given.targets.split(","):
                folder = root / name / target
                lowered.bundle(folder, targets=[target], name=name, static_memory=given.static)
                size = (folder / f"{name}.o").stat().st_size
                header = (folder / f"{name}.h").read_text()
                needs = [line.strip() for line in header.splitlines() if "   Needs of" in line]
                print(f"{name}, {target}: {size:,} bytes; {' '.join(needs)}", flush=True)
                for command in commands(name, target, folder):
                    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                    failed += done.returncode != 0
                    print(f"  {done.stdout}{done.stderr}".rstrip(), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
