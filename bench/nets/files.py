"""The networks as ONNX files, with inputs and the results of float64."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from ..process import ROOT

__all__ = ["FOLDER", "files_of"]

FOLDER = ROOT / "build" / "nets"


def files_of(name: str, folder: Path = FOLDER) -> tuple[Path, Path]:
    """Returns the model and its arrays; both are written if they are not there yet.

    The ``.npz`` holds the inputs by name, and ``result``, which torch computed in float64.
    """
    model, arrays = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not (model.exists() and arrays.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        _write(name, model, arrays)
    return model, arrays


def _write(name: str, model: Path, arrays: Path) -> None:
    import torch

    from .models import made

    net = made(name)
    part = model.with_suffix(".part.onnx")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.module,
            tuple(net.inputs.values()),
            part,
            input_names=list(net.inputs),
            output_names=["result"],
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        wide = net.module.double()
        inputs = [x.double() if x.is_floating_point() else x for x in net.inputs.values()]
        result = wide(*inputs).numpy()
    np.savez(arrays, result=result, **{n: x.numpy() for n, x in net.inputs.items()})
    os.replace(part, model)  # the model is there only when all is
