"""What tracing writes down, as graph IR text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np

W = np.ones((4, 3), np.float32)


class Layer:
    def __init__(self) -> None:
        self.weight = np.ones((4, 3), np.float32)
        self.scales = {"out": np.ones(3, np.float32)}

    def __call__(self, x: Any) -> Any:
        return x @ self.weight * self.scales["out"]


def traced(function: Callable[..., Any], *specs: Any, **options: Any) -> str:
    return lw.compile(function, **options).trace(*specs).as_text(spans=False)


def body(function: Callable[..., Any], *specs: Any) -> list[str]:
    """The lines between the braces."""
    return [line.strip() for line in traced(function, *specs).splitlines()[1:-1]]


def test_a_layer() -> None:
    bias = np.zeros(3, np.float32)
    text = traced(lambda x: np.maximum(x @ W + bias, 0), lw.f32[8, 4])
    assert text == (
        "def @main(%x: Tensor[(8, 4), float32]) -> Tensor[(8, 3), float32] {\n"
        "  %0 = nn.matmul(%x, meta[W]);\n"
        "  %1 = add(%0, meta[bias]);\n"
        "  maximum(%1, 0f)\n"
        "}"
    )


def test_spans_name_the_users_line_and_code() -> None:
    text = lw.compile(lambda x: np.exp(x) + 1).trace(lw.f32[4]).as_text()
    assert "test_trace_text.py:" in text
    assert "np.exp(x) */" in text
    assert "np.exp(x) + 1 */" in text


def test_symbolic_sizes() -> None:
    def f(x: Any) -> Any:
        return np.concatenate([x, x], axis=1).reshape(-1, 2)[::-1]

    assert traced(f, lw.f32["n", 4]) == (
        "def @main(%x: Tensor[(n, 4), float32]) -> Tensor[(4 * n, 2), float32] {\n"
        "  %0 = concatenate(%x, %x, axis=1);\n"
        "  %1 = reshape(%0, newshape=[4 * n, 2]);\n"
        "  reverse(%1, axis=[0])\n"
        "}"
    )


def test_symbolic_sizes_flow_into_xp() -> None:
    def f(x: Any) -> Any:
        return x + lw.xp.zeros(x.shape, dtype=x.dtype) + lw.xp.arange(x.shape[1])

    assert "full(shape=[n, m], fill_value=0)" in traced(f, lw.f32["n", "m"])


def test_python_numbers_stay_weak() -> None:
    assert body(lambda x: x * 2 + 0.5, lw.f32[4]) == ["%0 = multiply(%x, 2f);", "add(%0, 0.5f)"]


def test_promotion_inserts_casts() -> None:
    assert body(lambda x, y: x + y, lw.i32[4], lw.f32[4]) == [
        '%0 = cast(%x, dtype="float64");',
        '%1 = cast(%y, dtype="float64");',
        "add(%0, %1)",
    ]


def test_traced_python_numbers_stay_weak() -> None:
    lines = body(lambda x, s: x * s, lw.f32[4], 3)
    assert lines == ['%0 = cast(%s, dtype="float32");', "multiply(%x, %0)"]


def test_constants_are_cast_while_tracing() -> None:
    lines = body(lambda x: x + W, lw.f64[4, 3])
    assert len(lines) == 1


def test_loops_over_python_values_unroll() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x)
        return x

    assert body(f, lw.f32[4]) == ["%0 = tanh(%x);", "%1 = tanh(%0);", "tanh(%1)"]


def test_captured_arrays_are_named_after_what_holds_them() -> None:
    layer = Layer()
    text = traced(lambda x: layer(x) + np.ones(3, np.float32), lw.f32[8, 4])
    assert "meta[self_weight]" in text
    assert "meta[out]" in text or "meta[self_scales_out]" in text or "meta[c0]" in text


def test_one_captured_array_is_one_constant() -> None:
    traced_twice = lw.compile(lambda x: (x @ W) * (x @ W)).trace(lw.f32[8, 4])
    assert traced_twice.as_text().count("meta[W]") == 2
    assert "meta[W_1]" not in traced_twice.as_text()


def test_different_arrays_of_one_name_are_told_apart() -> None:
    def helper(x: Any) -> Any:
        weight = np.full((4, 4), 2, np.float32)
        return x @ weight

    text = traced(lambda x: helper(helper(x)), lw.f32[8, 4])
    assert "meta[weight]" in text
    assert "meta[weight_1]" in text


def test_captured_arrays_that_are_written_are_read_anew() -> None:
    table = np.ones(3, np.float32)
    f = lw.compile(lambda x: x + table)
    x = np.zeros(3, np.float32)
    assert f(x).tolist() == [1, 1, 1]
    table[:] = 5
    assert f(x).tolist() == [5, 5, 5]


def test_parameters_are_named_after_their_paths() -> None:
    text = traced(lambda p, *rest: p["w"] + rest[0], {"w": lw.f32[2]}, lw.f32[2])
    assert "def @main(%p_w: Tensor[(2), float32], %rest_0: Tensor[(2), float32])" in text


def test_several_results_are_a_tuple() -> None:
    assert body(lambda x: (x, {"a": x + 1}), lw.f32[2]) == ["%0 = add(%x, 1f);", "(%x, %0)"]


def test_calling_a_compiled_function_inlines_it() -> None:
    inner = lw.compile(lambda x: np.exp(x))
    assert body(lambda x: inner(x) + inner(x), lw.f32[2]) == [
        "%0 = exp(%x);",
        "%1 = exp(%x);",
        "add(%0, %1)",
    ]


def test_powers_become_cheap_operators() -> None:
    assert body(lambda x: x**2, lw.f32[2]) == ["multiply(%x, %x)"]
    assert body(lambda x: x**0.5, lw.f32[2]) == ["sqrt(%x)"]
    assert body(lambda x: x**3, lw.f32[2]) == ["power(%x, 3f)"]


def test_nothing_is_emitted_for_shapes() -> None:
    def f(x: Any) -> Any:
        assert x.shape == (2, 3)
        assert (x.ndim, x.size, len(x), x.nbytes, x.dtype) == (2, 6, 2, 24, np.float32)
        return x.reshape(2, 3).transpose(0, 1)[:, :]

    assert body(f, lw.f32[2, 3]) == ["%x"]


def test_printing_a_proxy_shows_its_type(capsys: Any) -> None:
    def f(x: Any) -> Any:
        y = x + 1
        print(x)
        print(f"{y}")
        return y

    traced(f, lw.f32[2])
    seen = capsys.readouterr().out.splitlines()
    hint = "; lw.debug.print shows values>"
    assert seen == [f"<traced x: float32[2], argument x of f{hint}", f"<traced: float32[2]{hint}"]


def test_array_namespace() -> None:
    def f(x: Any) -> Any:
        space = x.__array_namespace__()
        return space.sum(space.asarray(x) * space.ones((2,), dtype=space.float32))

    assert lw.compile(f)(np.float32([1, 2])) == 3
