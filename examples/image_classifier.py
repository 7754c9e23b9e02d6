"""A classifier of images as an ONNX model, end to end: written, read, checked, run, and shown.

The small convolutional network of ``digits.py`` is trained (seconds, in NumPy) and written as an
ONNX file, as any framework would export it. What follows is all that a user of the file does::

    classify = lw.from_onnx("digits.onnx")
    scores = classify(images)

It prints the digits that the network is least sure of, and how often it takes which for which.

    pip install "loopwright[onnx,demo]"
    python -m examples.image_classifier [--keep digits.onnx]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import loopwright as lw
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import digits

SHADES = " .:-=+*#%@"


def write_model(path: Path) -> None:
    """Writes the trained network as ONNX: float32[n, 1, 8, 8] images -> float32[n, 10] scores."""
    features = digits.K2.shape[-1]
    # ONNX keeps kernels as OIHW and images as NCHW; so the rows of the last product change order.
    dense = digits.D.reshape(2, 2, features, 10).transpose(2, 0, 1, 3).reshape(-1, 10)
    weights = {
        "k1": digits.K1.transpose(3, 2, 0, 1),
        "c1": digits.C1,
        "k2": digits.K2.transpose(3, 2, 0, 1),
        "c2": digits.C2,
        "d": dense,
        "e": digits.E,
    }
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["images", "k1", "c1"], ["a1"], **padded),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], **pooled),
        helper.make_node("Conv", ["p1", "k2", "c2"], ["a2"], **padded),
        helper.make_node("Relu", ["a2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p2"], **pooled),
        helper.make_node("Flatten", ["p2"], ["flat"]),
        helper.make_node("Gemm", ["flat", "d", "e"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["chances"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [360, 1, 8, 8])],
        [helper.make_tensor_value_info("chances", TensorProto.FLOAT, [360, 10])],
        [
            numpy_helper.from_array(np.ascontiguousarray(value), name)
            for name, value in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    onnx.save(model, path)


def picture(images: np.ndarray) -> str:
    """Returns images side by side as text, a character of two columns per pixel."""
    rows = np.concatenate([np.pad(image, ((0, 0), (0, 1))) for image in images], axis=1)
    levels = np.minimum(rows * len(SHADES), len(SHADES) - 1).astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row).rstrip() for row in levels)


def confusion(labels: np.ndarray, found: np.ndarray) -> str:
    """Returns how often each digit (a row) was taken for each (a column)."""
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, found), 1)
    lines = ["     " + "".join(f"{n:4}" for n in range(10))]
    for digit, row in enumerate(counts):
        lines.append(f"{digit:4} " + "".join(f"{n:4}" if n else "   ." for n in row))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 1 if the model is not what NumPy computes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="keep the model in this file")
    keep = parser.parse_args(argv).keep
    images, labels = digits.IMAGES[digits.TRAINED_ON :], digits.LABELS[digits.TRAINED_ON :]
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "digits.onnx"
        write_model(path)
        start = time.perf_counter()
        classify = lw.from_onnx(path)
        chances = classify(images[:, None])
    print(f"read, compiled and run in {time.perf_counter() - start:.2f} s")
    scores = digits.predict_cnn_numpy(images[..., None])
    expected = np.exp(scores - scores.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    wrong = float(np.abs(chances - expected).max())
    found = chances.argmax(1)
    right = int((found == labels).sum())
    print(f"{right} of {len(labels)} unseen digits are right; off from NumPy's by {wrong:.1e}\n")
    unsure = np.argsort(chances.max(1))[:6]
    print(picture(images[unsure]))
    print(
        "  ".join(
            f"{labels[n]}: {found[n]} ({100 * chances[n].max():2.0f} %)".ljust(16) for n in unsure
        )
    )
    print("\ndigit by what it was taken for\n" + confusion(labels, found))
    return 0 if wrong < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
