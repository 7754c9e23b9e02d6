"""Converters of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from ...control import scan
from .quantised import dequantised, dynamically_quantised
from .table import Node, Value, converter

_PARAMETERS = {
    "affine": (1.0, 0.0),
    "elu": (1.0, 0.0),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0, 0.0),
}
"""Defaults of the two parameters of activations that have any."""

_TAKES_BETA = ("affine", "hardsigmoid", "scaledtanh")

_Layer = Callable[[int, dict[str, Any]], tuple[Value, ...]]


def _directions(direction: str) -> tuple[bool, ...]:
    """Returns for each direction if it begins with the last step."""
    table = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in table:
        raise UnsupportedError(f"its attribute direction={direction!r} is not supported")
    return table[direction]


def _activations(
    names: Sequence[str],
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    directions: int,
) -> list[dict[str, Any]]:
    """Returns the activations of each direction with their parameters, as ``lw.nn`` takes them.

    The model lists parameters of those activations only that have some.
    """
    left, right = list(alphas or ()), list(betas or ())
    rows: list[tuple[str, float, float]] = []
    for name in (n.lower() for n in names):
        alpha, beta = _PARAMETERS.get(name, (0.0, 0.0))
        if name in _PARAMETERS and left:
            alpha = left.pop(0)
        if name in _TAKES_BETA and right:
            beta = right.pop(0)
        rows.append((name, alpha, beta))
    count = len(rows) // directions
    parts = [rows[n * count : (n + 1) * count] for n in range(directions)]
    return [
        {
            "activations": tuple(row[0] for row in part),
            "alphas": tuple(row[1] for row in part),
            "betas": tuple(row[2] for row in part),
        }
        for part in parts
    ]


def _reordered(weights: Value, order: Sequence[int]) -> Value:
    """Returns weights whose gates, along the first axis, have another order."""
    if len(order) == 1:
        return weights
    size = weights.shape[0] // len(order)
    return np.concatenate([weights[n * size : (n + 1) * size] for n in order])


def _joined(
    layer: _Layer,
    direction: str,
    layout: int,
    activations: list[dict[str, Any]],
) -> tuple[Value, ...]:
    """Returns the outputs of all directions: Y (steps, directions, batch, hidden), then the last
    states (directions, batch, hidden); with ``layout`` 1 the batch is the first axis of all."""
    reverses = _directions(direction)
    results = [
        layer(n, {"reverse": reverse, **activations[n]}) for n, reverse in enumerate(reverses)
    ]
    outputs = np.stack([result[0] for result in results], axis=1)
    states = [np.stack(each) for each in list(zip(*results, strict=True))[1:]]
    if layout:
        outputs = np.transpose(outputs, (2, 0, 1, 3))
        states = [np.transpose(each, (1, 0, 2)) for each in states]
    return (outputs, *states)


def _of_direction(value: Value, n: int, layout: int) -> Value:
    """Returns the first states of one direction."""
    if value is None:
        return None
    return value[:, n] if layout else value[n]


def _steps_first(x: Value, layout: int) -> Value:
    return np.transpose(x, (1, 0, 2)) if layout else x


_LAYERS = {
    "LSTM": ((0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),  # the standard's i, o, f, c as i, f, c, o
    "GRU": ((1, 0, 2), ("Sigmoid", "Tanh")),  # its z, r, h as r, z, h
    "RNN": ((0,), ("Tanh",)),
}
"""Layers by operator: the order of the gates as ``lw.nn`` has them, and the usual activations."""


# hidden_size: the weights have it.
@converter("LSTM", since=7, ignores=("hidden_size",))
@converter("GRU", since=7, ignores=("hidden_size",))
@converter("RNN", since=7, ignores=("hidden_size",))
def _recurrent(
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    sequence_lens: Value = None,
    initial_h: Value = None,
    initial_c: Value = None,
    p: Value = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float = 0.0,
    direction: str = "forward",
    input_forget: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Any:
    """Each of them has some of the inputs and attributes."""
    count, hidden = len(_directions(direction)), r.shape[2]
    order, usual = _LAYERS[node.op_type]
    width = len(order) * hidden

    def layer(n: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
        weights = (_steps_first(x, layout), _reordered(w[n], order), _reordered(r[n], order))
        biases: list[Any] = [None, None] if b is None else [b[n, :width], b[n, width:]]
        first = _of_direction(initial_h, n, layout)
        shared = {"lengths": sequence_lens, "clip": clip}
        if node.op_type == "GRU":
            bias, inner = (each if each is None else _reordered(each, order) for each in biases)
            after = bool(linear_before_reset)
            return nn.gru(*weights, bias, inner, first, reset_after=after, **shared, **attrs)
        bias = None if b is None else _reordered(biases[0] + biases[1], order)
        if node.op_type == "RNN":
            (activation,), (alpha,), (beta,) = (
                attrs.pop(name) for name in ("activations", "alphas", "betas")
            )
            chosen = {"activation": activation, "alpha": alpha, "beta": beta}
            return nn.rnn(*weights, bias, first, **chosen, **shared, **attrs)
        peepholes = None if p is None else _reordered(p[n], (0, 2, 1)).reshape(3, hidden)
        forget = {"input_forget": bool(input_forget), "peepholes": peepholes}
        state = _of_direction(initial_c, n, layout)
        return nn.lstm(*weights, bias, first, state, **forget, **shared, **attrs)

    rows = _activations(activations or usual * count, activation_alpha, activation_beta, count)
    return _joined(layer, direction, layout, rows)


@converter("DynamicQuantizeLSTM", since=1, domain="com.microsoft", ignores=("hidden_size",))
def _dynamic_quantize_lstm(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    sequence_lens: Value = None,
    initial_h: Value = None,
    initial_c: Value = None,
    p: Value = None,
    w_scale: Value = None,
    w_zero: Value = None,
    r_scale: Value = None,
    r_zero: Value = None,
    *,
    direction: str = "forward",
    input_forget: int = 0,
) -> Any:
    """The inputs of all steps are rounded to bytes of one scale, the state of each step anew."""
    if sequence_lens is not None or p is not None or input_forget:
        raise UnsupportedError("lengths of sequences, peepholes and input_forget in it")
    hidden = r.shape[1]

    def layer(n: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
        inner = dequantised(r[n], r_scale[n], r_zero[n])
        rows = np.matmul(_in_bytes(x), dequantised(w[n], w_scale[n], w_zero[n]))
        if b is not None:
            rows = rows + (b[n, : 4 * hidden] + b[n, 4 * hidden :])
        nothing = np.zeros((x.shape[1], hidden), x.dtype)
        first = (nothing if each is None else each[n] for each in (initial_h, initial_c))

        def step(state: tuple[Value, Value], row: Value) -> Any:
            h, c = state
            i, o, f, g = np.split(row + np.matmul(_in_bytes(h), inner), 4, -1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
            h = nn.sigmoid(o) * np.tanh(c)
            return (h, c), h

        last, outputs = scan(step, tuple(first), rows, reverse=attrs["reverse"])
        return (outputs, *last)

    return _joined(layer, direction, 0, [{}] * len(_directions(direction)))


def _in_bytes(x: Value) -> Value:
    """Returns numbers rounded to bytes of a scale that is theirs."""
    return dequantised(*dynamically_quantised(x))
