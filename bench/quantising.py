"""How near programs on bytes are to the float ones: ours, and those of others' quantisers.

    python -m bench.quantising digits                     accuracy of examples/digits.py's CNN
    python -m bench.quantising resnet50 mobilenetv2       64 samples, 64 random images to compare on
    python -m bench.quantising net.onnx --peers nncf      a file, one peer
    python -m bench.quantising resnet50 --peers           the table of the results that are kept

All quantise the same float model with the same samples, and compute the results of other images,
which are kept in build/quantising: peers that do not go together in one environment are run one
after the other. The table has the mean and the least cosine with the float model's results, the
share of images with the same best class, and the norm of the difference as a part of the results'.
Bars: digits lose at most 0.3 points; the cosine and the best class are at least those of each peer,
within what two of the images are worth. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main", "measured", "table"]

Array = np.ndarray[Any, Any]
Feeds = Sequence[dict[str, Array]]

FOLDER = Path(__file__).resolve().parents[1] / "build" / "quantising"
COUNT = 64
MOST_LOST, LEAST_AGREEMENT = 0.3, 2 / COUNT


def images(model: Path, seed: int) -> Feeds:
    """Returns random inputs of a model from a fixed generator."""
    import onnx

    rng = np.random.default_rng(seed)
    shapes = {
        value.name: [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        for value in onnx.load(model).graph.input
    }
    return [
        {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
        for _ in range(COUNT)
    ]


def _rows(call: Callable[[dict[str, Array]], Any], tests: Feeds) -> Array:
    return np.stack([np.ravel(np.asarray(call(feeds))) for feeds in tests])


def _float(model: Path, _samples: Feeds, tests: Feeds) -> Array:
    import loopwright as lw

    f = lw.from_onnx(model)
    return _rows(lambda feeds: next(iter(f.run(feeds).values())), tests)


def _ours(model: Path, samples: Feeds, tests: Feeds) -> Array:
    import loopwright as lw

    q = lw.quantize(lw.from_onnx(model), samples)
    print(q.report.summary(), file=sys.stderr)
    return _rows(lambda feeds: next(iter(q.run(feeds).values())), tests)


def _onnxruntime(model: Path, samples: Feeds, tests: Feeds) -> Array:
    import onnxruntime
    from onnxruntime import quantization
    from onnxruntime.quantization.preprocess import quant_pre_process

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    ready, made = (FOLDER / f"{model.stem}.{part}.onnx" for part in ("ready", "quantised"))
    quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
    kinds = quantization.QuantType
    quantization.quantize_static(
        str(ready),
        str(made),
        Samples(),
        activation_type=kinds.QUInt8,
        weight_type=kinds.QInt8,
        per_channel=True,
    )
    session = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])
    return _rows(lambda feeds: session.run(None, feeds)[0], tests)


def _nncf(model: Path, samples: Feeds, tests: Feeds) -> Array:
    import nncf
    import openvino

    core = openvino.Core()
    quantised = nncf.quantize(core.read_model(model), nncf.Dataset(samples), subset_size=COUNT)
    compiled = core.compile_model(quantised, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return _rows(lambda feeds: compiled(feeds)[0], tests)


PEERS = {"ours": _ours, "onnxruntime": _onnxruntime, "nncf": _nncf}


def measured(exact: Array, got: Array) -> tuple[float, float, float, float]:
    """Returns the mean and the least cosine, the share of equal best classes, and the difference.

    >>> measured(np.eye(2), np.array([[2.0, 0.0], [0.0, 1.0]]))
    (1.0, 1.0, 1.0, 0.7071067811865475)
    """
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(got, axis=1)
    cosines = (exact * got).sum(axis=1) / lengths
    same = (exact.argmax(axis=1) == got.argmax(axis=1)).mean()
    off = np.linalg.norm(exact - got) / np.linalg.norm(exact)
    return float(cosines.mean()), float(cosines.min()), float(same), float(off)


def table(rows: dict[str, tuple[float, float, float, float]]) -> str:
    """Returns the figures of each peer as a table."""
    lines = ["| | cosine | least | same class | difference |", "|---|---|---|---|---|"]
    for name, (mean, least, same, off) in rows.items():
        lines.append(f"| {name} | {mean:.5f} | {least:.5f} | {same:.1%} | {off:.2%} |")
    return "\n".join(lines)


def _compare(name: str, peers: Sequence[str]) -> bool:
    """Prints the table of a network; returns True if its bars hold."""
    if name.endswith(".onnx"):
        model = Path(name)
    else:
        from .nets.files import files_of  # needs torch

        model, _ = files_of(name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {peer: FOLDER / f"{model.stem}.{peer}.npy" for peer in ("float", *PEERS)}
    wanted = [p for p in peers if p in PEERS]
    if wanted:
        samples, tests = images(model, 0), images(model, 1)
        if not kept["float"].exists():
            np.save(kept["float"], _float(model, samples, tests))
        for peer in wanted:
            try:
                np.save(kept[peer], PEERS[peer](model, samples, tests))
            except ImportError as error:
                print(f"{peer}: {error}", file=sys.stderr)
    exact = np.load(kept["float"])
    rows = {p: measured(exact, np.load(kept[p])) for p in PEERS if kept[p].exists()}
    print(f"{model.stem}, {COUNT} samples\n{table(rows)}")
    others = [row for peer, row in rows.items() if peer != "ours"]
    if "ours" not in rows:
        return True
    mean, _, same, _ = rows["ours"]
    return all(mean >= row[0] - 1e-3 and same >= row[2] - LEAST_AGREEMENT for row in others)


def _digits() -> bool:
    """Prints the accuracy of the CNN of digits before and after; returns True if the bar holds."""
    import loopwright as lw

    from examples import digits

    size = 36  # ten calls make up the test set
    training, test = (
        digits.IMAGES[: digits.TRAINED_ON, ..., None],
        digits.IMAGES[digits.TRAINED_ON :],
    )
    samples = [training[size * n : size * (n + 1)] for n in range(len(training) // size)]
    q = lw.quantize(digits.predict_cnn, samples)
    calls = test[..., None].reshape(-1, size, *samples[0].shape[1:])
    labels = digits.LABELS[digits.TRAINED_ON :]
    before, after = (
        100 * np.mean(np.concatenate([np.asarray(f(x)) for x in calls]).argmax(axis=1) == labels)
        for f in (digits.predict_cnn, q)
    )
    print(f"digits: {before:.2f} % of {len(labels)} right in float32, {after:.2f} % in int8")
    print(q.report.summary())
    return before - after <= MOST_LOST


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.quantising",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("networks", nargs="+", help="digits, names of bench.nets, or .onnx files")
    parser.add_argument("--peers", nargs="*", default=[*PEERS], help=", ".join(PEERS))
    args = parser.parse_args(argv)
    held = [_digits() if n == "digits" else _compare(n, args.peers) for n in args.networks]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
