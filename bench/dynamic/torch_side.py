"""The programs in torch, and as ONNX models with symbolic sizes."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..nets.models import made
from ..process import ROOT
from .programs import HEADS, LAYERS, Program, weights_of

__all__ = ["exported", "module_of", "wide_result"]

FOLDER = ROOT / "build" / "dynamic"


class _Module(nn.Module):
    """A program with its weights as buffers."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        for name, array in weights_of(program.name).items():
            self.register_buffer(name, torch.from_numpy(array))

    def dense(self, x: Tensor, name: str) -> Tensor:
        return x @ getattr(self, f"w{name}") + getattr(self, f"b{name}")

    def norm(self, x: Tensor, name: str) -> Tensor:
        gamma, beta = getattr(self, f"gamma{name}"), getattr(self, f"beta{name}")
        return functional.layer_norm(x, x.shape[-1:], gamma, beta)


class _Mlp(_Module):
    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.dense(x, "1"))
        return self.dense(functional.relu(self.dense(x, "2")), "3")


class _Encoder(_Module):
    def forward(self, x: Tensor) -> Tensor:
        n, width = x.shape
        h = self.norm(x, "1")
        q, k, v = (
            self.dense(h, p).reshape(n, HEADS, width // HEADS).transpose(0, 1)[None] for p in "qkv"
        )
        found = functional.scaled_dot_product_attention(q, k, v)[0]
        x = x + self.dense(found.transpose(0, 1).reshape(n, width), "o")
        return x + self.dense(functional.relu(self.dense(self.norm(x, "2"), "1")), "2")


class _SoftmaxNorm(_Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(functional.softmax(x, -1), "")


class _Convolutions(_Module):
    def forward(self, x: Tensor) -> Tensor:
        for n in range(LAYERS):
            weight, bias = getattr(self, f"k{n}"), getattr(self, f"b{n}")
            x = functional.relu(functional.conv2d(x, weight, bias, padding=1))
        return x


_MODULES = {
    "mlp": _Mlp,
    "encoder": _Encoder,
    "softmax_norm": _SoftmaxNorm,
    "convolutions": _Convolutions,
}


def module_of(program: Program) -> nn.Module:
    """Returns the program as a module; a network of ``bench.nets`` if it has no function."""
    if program.function is None:
        return made(program.name).module
    return _MODULES[program.name](program).eval()


def exported(program: Program, folder: Path = FOLDER) -> Path:
    """Returns the ONNX file of a program, with its symbolic sizes; it is written if there is none
    yet."""
    path = folder / f"{program.name}.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.onnx")
    x = torch.from_numpy(np.ascontiguousarray(program.input(program.timed[-2])))
    axes: Any = {axis: torch.export.Dim(name) for axis, (name, _, _) in program.axes.items()}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module_of(program),
            (x,),
            part,
            input_names=["x"],
            output_names=["result"],
            dynamic_shapes=(axes,),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    os.replace(part, path)
    return path


def wide_result(program: Program, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the result in float64, as float32."""
    tensor = torch.from_numpy(x)
    with torch.no_grad():
        result = module_of(program).double()(tensor.double() if x.dtype == np.float32 else tensor)
    return result.numpy().astype(np.float32)
