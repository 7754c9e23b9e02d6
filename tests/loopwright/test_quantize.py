"""``lw.quantize``: programs on bytes are close to the float ones, and say how close."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main
from loopwright.quantise.profile import BINS, Observed, Profile
from loopwright.quantise.ranges import Scheme, scale_of

RNG = np.random.default_rng(7)
KERNEL = (RNG.standard_normal((8, 3, 3, 3)) / 5).astype(np.float32)
DEPTHWISE = (RNG.standard_normal((8, 1, 3, 3)) / 3).astype(np.float32)
GAMMA, BETA, MEAN = (RNG.standard_normal(8).astype(np.float32) for _ in range(3))
DENSE = (RNG.standard_normal((8 * 64, 10)) / 20).astype(np.float32)
IMAGES = RNG.standard_normal((12, 1, 3, 8, 8)).astype(np.float32)


def network(x: Any) -> Any:
    """Convolutions, one of them by channel, a normalisation, a residual and a product."""
    y = lw.nn.conv2d(x, KERNEL, padding=1)
    y = lw.nn.relu(lw.nn.batch_norm(y, GAMMA, BETA, MEAN, np.abs(MEAN) + 1, axis=1))
    y = lw.nn.conv2d(y, DEPTHWISE, padding=1, groups=8) + y
    return np.reshape(y, (1, -1)) @ DENSE


def distance(q: Any, f: Any, samples: Any) -> float:
    got, exact = (np.concatenate([np.ravel(g(x)) for x in samples]) for g in (q, f))
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse", "kl"])
@pytest.mark.parametrize(
    "more", [{}, {"symmetric": True}, {"power_of_two": True}, {"per_channel": False}]
)
def test_a_network_on_bytes_is_close(ranges: str, more: dict[str, Any]) -> None:
    q = lw.quantize(network, IMAGES[:8], scheme=Scheme(ranges=ranges, **more))
    worst = 0.06 if "power_of_two" in more else 0.03
    assert distance(q, network, IMAGES[8:]) < worst
    assert q.report.error < worst
    text = q.lower().as_text("kernels")
    assert ": int32[" in text and "uint8" in text
    assert len(q.report.sites) == 3 and not any(s.is_float for s in q.report.sites)


def test_the_contractions_that_do_most_harm_stay_float() -> None:
    plain = lw.quantize(network, IMAGES)
    q = lw.quantize(network, IMAGES, error=plain.report.error * 0.8)
    floats = [s for s in q.report.sites if s.is_float]
    assert 0 < len(floats) < 3 and q.report.error <= plain.report.error * 0.8
    assert "(float32)" in str(q.report)
    assert f"{len(floats)} of them in float32" in q.report.summary()
    assert all(s.is_float for s in lw.quantize(network, IMAGES, error=1e-9).report.sites)
    with pytest.raises(lw.LoopwrightValueError, match="no way to quantise"):
        lw.quantize(network, IMAGES, error=-1.0)


def test_harm_is_what_a_contraction_does_to_the_results() -> None:
    main, minor = (RNG.standard_normal((64, 32)).astype(np.float32) for _ in range(2))
    minor[3] *= 50  # its own error is larger, and nothing comes of it
    xs = RNG.standard_normal((8, 16, 64)).astype(np.float32)

    def f(x: Any) -> Any:
        y = x @ minor * np.float32(1e-6)
        return y + x * 2 @ main

    plain = lw.quantize(f, xs)
    small, large = sorted(plain.report.sites, key=lambda s: s.error)
    q = lw.quantize(f, xs, error=plain.report.error / 10)
    assert [s.name for s in q.report.sites if s.is_float] == [small.name]
    assert large.error > small.error and q.report.error < plain.report.error / 10


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [16, 64])
def test_weights_alone_are_rounded_by_least_squares(bits: int, group: int) -> None:
    """Inputs of few directions, as those of trained networks are: half of the error is gone."""
    mixing = RNG.standard_normal((24, 128)) + 0.1
    xs = (RNG.standard_normal((32, 20, 24)) @ mixing).astype(np.float32)
    xs += 0.3 * RNG.standard_normal(xs.shape).astype(np.float32)
    first, last = (RNG.standard_normal(s).astype(np.float32) for s in ((128, 48), (9, 7)))
    by_row = np.ascontiguousarray(first.T)

    def f(x: Any) -> dict[str, Any]:
        y = x @ first
        return {"y": y, "z": [np.tanh(y[..., :9] / 100) @ last, lw.nn.dense(x, by_row)]}

    scheme = Scheme(weights_only=bits, group=group)
    q = lw.quantize(f, xs, scheme=scheme)
    plain = lw.quantize(f, xs, scheme=Scheme(weights_only=bits, group=group, least_squares=False))
    for site, rounded in zip(q.report.sites, plain.report.sites, strict=True):
        assert site.nearest == rounded.error == rounded.nearest
        assert site.error < 0.5 * rounded.error and site.bits == bits
    got, exact, near = q(xs[0]), f(xs[0]), plain(xs[0])
    assert got.keys() == exact.keys() and isinstance(got["z"], list)
    flat = [[r["y"], r["z"][1]] for r in (got, exact, near)]
    ours, nearest = (np.linalg.norm(np.array(r) - flat[1]) for r in (flat[0], flat[2]))
    assert ours < 0.6 * nearest
    measured = np.linalg.norm(q(xs[0])["y"] - exact["y"]) / np.linalg.norm(exact["y"])
    assert 0.5 < measured / q.report.sites[0].error < 2
    assert "by the nearest)" in str(q.report) and len(q.report.left) == 1
    assert f"no constant matrix in groups of {group}" in q.report.left[0]
    assert q.report.bytes[1] == q.report.bytes[0] * bits // 32
    text = q.lower().as_text("graph")
    assert "nn.matmul_nbits" in text or "matmul_codes" in text


def test_results_keep_their_structure(tmp_path: Path) -> None:
    w = RNG.standard_normal((16, 8)).astype(np.float32)
    xs = RNG.standard_normal((4, 3, 16)).astype(np.float32)

    def f(x: Any, /, flag: bool = True) -> Any:
        y = x @ w
        return {"y": y, "pair": (y.sum(), [3, "text", None])}

    q = lw.quantize(f, xs)
    got = q(xs[0])
    assert list(got) == ["y", "pair"] and got["pair"][1] == [3, "text", None]
    np.testing.assert_allclose(got["pair"][0], got["y"].sum(), rtol=1e-5)
    assert isinstance(lw.quantize(lambda x: [x @ w], xs)(xs[0]), list)
    assert list(q(xs[0], threads=1)) == list(q.with_threads(1)(xs[0])) == ["y", "pair"]
    q.lower().save(tmp_path / "f.lw")
    assert list(lw.load(tmp_path / "f.lw")(xs[0])) == ["y", "pair"]


def test_arguments_that_are_written_are_written() -> None:
    w = RNG.standard_normal((16, 8)).astype(np.float32)
    xs = RNG.standard_normal((4, 3, 16)).astype(np.float32)

    def f(x: Any, out: Any) -> Any:
        out[...] = x @ w
        return out.max()

    samples = [(x, np.zeros((3, 8), np.float32)) for x in xs]
    q, out = lw.quantize(f, samples), np.zeros((3, 8), np.float32)
    most = q(xs[0], out)
    exact = xs[0] @ w
    assert 0 < np.linalg.norm(out - exact) < 0.02 * np.linalg.norm(exact) and most == out.max()


def test_contractions_that_are_left_are_listed() -> None:
    w = RNG.standard_normal((16, 16)).astype(np.float32)
    xs = RNG.standard_normal((4, 3, 16)).astype(np.float32)

    def f(x: Any) -> Any:
        y = lw.fori_loop(0, 3, lambda i, y: np.tanh(y @ w), x @ w)
        return y.astype(np.float64) @ w.astype(np.float64)

    report = lw.quantize(f, xs).report
    assert len(report.sites) == 1 and len(report.left) == 2
    assert any(text.endswith("matmul: in a loop or branch") for text in report.left)
    assert any(text.endswith("not of float32, or of constants") for text in report.left)
    assert str(report).count("left as it was: ") == 2


def test_products_of_two_values_are_of_bytes_too() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return lw.nn.softmax(q @ np.swapaxes(k, -1, -2) / 4) @ v

    samples = [tuple(RNG.standard_normal((3, 2, 9, 16)).astype(np.float32)) for _ in range(6)]
    made = lw.quantize(attention, samples)
    exact = attention(*samples[0])
    assert np.linalg.norm(made(*samples[0]) - exact) / np.linalg.norm(exact) < 0.03
    assert [s.weights for s in made.report.sites] == [0, 0]


def test_outliers_of_channels_move_into_weights() -> None:
    w = RNG.standard_normal((64, 32)).astype(np.float32)
    outliers = np.where(np.arange(64) == 5, 60, 1).astype(np.float32)
    xs = RNG.standard_normal((16, 20, 64)).astype(np.float32) * outliers
    w[5] /= 30

    def f(x: Any) -> Any:
        return x @ w

    plain, smooth = (lw.quantize(f, xs, scheme=Scheme(smooth=s)) for s in (None, 0.5))
    assert smooth.report.error < plain.report.error / 2


def test_the_mean_of_a_result_is_kept() -> None:
    w = RNG.uniform(0.001, 0.002, (256, 16)).astype(np.float32)
    w[0] = 1  # the scale: what is left of the others is few steps
    xs = RNG.uniform(0.5, 1, (16, 8, 256)).astype(np.float32)

    def f(x: Any) -> Any:
        return x @ w

    def shift(correct: bool) -> float:
        q = lw.quantize(f, xs, scheme=Scheme(ranges="minmax", correct_bias=correct))
        return float(np.abs(np.mean([q(x) - f(x) for x in xs], axis=(0, 1))).max())

    assert shift(True) < shift(False) / 4


def test_models_and_samples_by_name() -> None:
    model = lw.build(
        "def @main(%a: Tensor[(4, 32), float32], %b: Tensor[(32, 8), float32]) {"
        " nn.matmul(%a, %b) }"
    )
    samples = [
        {"a": RNG.random((4, 32), np.float32), "b": RNG.random((32, 8), np.float32)}
        for _ in range(3)
    ]
    q = lw.quantize(model, samples)
    assert q.inputs == ("a", "b")
    exact = samples[0]["a"] @ samples[0]["b"]
    np.testing.assert_allclose(q(**samples[0]), exact, rtol=0.02)


def test_a_profile_stands_for_samples(tmp_path: Path) -> None:
    q = lw.quantize(network, IMAGES)
    path = tmp_path / "profile.json"
    q.observed.save(path)
    again = lw.quantize(network, IMAGES[:1], profile=Profile.load(path))
    np.testing.assert_array_equal(again(IMAGES[3]), q(IMAGES[3]))
    names = list(json.loads(path.read_text())["values"])
    assert names[0] == "x" and "test_quantize.py" in names[1]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "samples": 1, "values": {"x": {"least": 1}}}']
    + ["[" * 100_000],
)
def test_files_that_are_no_profiles_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(lw.LoopwrightValueError, match="does not hold a profile"):
        Profile.load(path)


def test_what_cannot_be_quantised_says_so() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="no samples"):
        lw.quantize(network, [])
    with pytest.raises(lw.LoopwrightValueError, match="no product or convolution"):
        lw.quantize(lambda x: np.exp(x), IMAGES)
    w = np.ones((64, 8), np.float32)
    for bad in (np.inf, -np.inf, np.nan):
        for scheme in (None, Scheme(weights_only=4)):
            sample = np.zeros((2, 64), np.float32)
            sample[1, 5] = bad
            with pytest.raises(lw.LoopwrightValueError, match="on the samples"):
                lw.quantize(lambda x: x @ w, [np.zeros((2, 64), np.float32), sample], scheme=scheme)
    with pytest.raises(lw.LoopwrightTypeError, match=r"scheme is a lw\.Scheme, not 'int4'"):
        lw.quantize(network, IMAGES, scheme="int4")  # type: ignore[arg-type]
    with pytest.raises(lw.LoopwrightValueError, match="ranges='best' is none of"):
        Scheme(ranges="best")
    with pytest.raises(lw.LoopwrightValueError, match="smooth"):
        Scheme(smooth=2.0)
    for wrong in ({"weights_only": 3}, {"weights_only": 4, "group": 7}):
        with pytest.raises(lw.LoopwrightValueError, match="4 or 8 bits in even groups"):
            Scheme(**wrong)


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse", "kl"])
def test_values_that_are_always_zero_have_a_scale(ranges: str) -> None:
    none = np.zeros(1)
    counts = np.zeros(BINS, np.int64)
    counts[0] = 10
    scale, zero = scale_of(Observed(0.0, 0.0, counts, none, none), Scheme(ranges=ranges))
    assert np.isfinite(scale) and scale > 0 and zero == 0


def test_a_model_is_quantised_from_the_command_line(tmp_path: Path, capsys: Any) -> None:
    source = tmp_path / "net.py"
    source.write_text(
        "import numpy as np\nimport loopwright as lw\n"
        "w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)\n"
        "def f(x):\n    return np.maximum(x @ w, 0)\n"
        "f_inputs = (lw.f32[4, 64],)\n"
    )
    xs = RNG.standard_normal((8, 4, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", xs)
    out, page = tmp_path / "net.lw", tmp_path / "net.html"
    arguments = ["quantize", f"{source}:f", "--samples", str(tmp_path / "x.npy"), "-o", str(out)]
    profile = tmp_path / "profile.json"
    code = main([*arguments, "--report", str(page), "--profile", str(profile)])
    printed = capsys.readouterr().out
    assert code == 0 and "1 contractions; results differ by" in printed
    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    exact = np.maximum(xs[0] @ w, 0)
    assert np.linalg.norm(lw.load(out)(xs[0]) - exact) / np.linalg.norm(exact) < 0.02
    assert main([*arguments, "--weights-only", "4", "--group", "16"]) == 0
    assert "by the nearest)" in capsys.readouterr().out
    assert np.linalg.norm(lw.load(out)(xs[0]) - exact) / np.linalg.norm(exact) < 0.15
    assert "<svg" in page.read_text() and "net.py:5 matmul" in page.read_text()
    assert Profile.load(profile).samples == 8
    assert main([*arguments, "--ranges", "best"]) == 2
    assert "none of" in capsys.readouterr().err
