"""The networks as ONNX files, with inputs and the results of float64; or quantised by ONNX Runtime
in one of three forms (``resnet50:qdq``), with the results that it then has."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from ..process import ROOT

__all__ = ["FOLDER", "FORMS", "files_of"]

FOLDER = ROOT / "build" / "nets"

FORMS = ("qdq", "qoperator", "dynamic")

CALIBRATED = 4  # inputs that ranges are of


def files_of(name: str, folder: Path = FOLDER) -> tuple[Path, Path]:
    """Returns the model and its arrays; both are written if they are not there yet.

    The ``.npz`` holds the inputs by name, and ``result``, which torch computed in float64.
    """
    name, _, form = name.partition(":")
    file = f"{name}.{form}" if form else name
    model, arrays = folder / f"{file}.onnx", folder / f"{file}.npz"
    if not (model.exists() and arrays.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        if form:
            _quantise(*files_of(name, folder), form, model, arrays)
        else:
            _write(name, model, arrays)
    return model, arrays


def _quantise(plain: Path, inputs: Path, form: str, model: Path, arrays: Path) -> None:
    """Quantises a model with its own input and random ones; per channel, uint8 by int8."""
    import onnxruntime
    from onnxruntime import quantization
    from onnxruntime.quantization.preprocess import quant_pre_process

    with np.load(inputs) as loaded:
        given = {name: loaded[name] for name in loaded.files if name != "result"}
    rng = np.random.default_rng(0)
    samples = [given] + [
        {n: rng.standard_normal(a.shape).astype(a.dtype) if a.dtype.kind == "f" else a
         for n, a in given.items()}
        for _ in range(CALIBRATED - 1)
    ]  # fmt: skip

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    ready, part = model.with_suffix(".ready.onnx"), model.with_suffix(".part.onnx")
    quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
    kinds = quantization.QuantType
    if form == "dynamic":
        quantization.quantize_dynamic(str(ready), str(part), weight_type=kinds.QInt8)
    else:
        forms = {"qdq": "QDQ", "qoperator": "QOperator"}
        quantization.quantize_static(
            str(ready),
            str(part),
            Samples(),
            quant_format=quantization.QuantFormat[forms[form]],
            activation_type=kinds.QUInt8,
            weight_type=kinds.QInt8,
            per_channel=True,
        )
    ready.unlink()
    session = onnxruntime.InferenceSession(str(part), providers=["CPUExecutionProvider"])
    np.savez(arrays, result=session.run(None, given)[0], **given)
    os.replace(part, model)


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
