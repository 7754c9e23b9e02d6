"""Recurrent layers, several at once: each is a call of ``lw.nn`` in each direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ..table import Value, aten

_Cell = Callable[[Value, Sequence[Value], Any, Sequence[Value], bool], tuple[Value, ...]]
"""A layer in one direction, as a function of its inputs, its weights, its two biases or None, its
first states, and whether it begins with the last step; returns the outputs and the last states."""


def _layers(
    cell: _Cell,
    x: Value,
    states: Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """Returns the outputs of the last layer, and the last states (layers * directions, batch,
    hidden) of each kind, as PyTorch takes the first ones."""
    if train and dropout and num_layers > 1:
        raise UnsupportedError("dropout between recurrent layers", hint="model.eval()")
    x = np.swapaxes(x, 0, 1) if batch_first else x
    directions, last = 1 + bidirectional, list[Sequence[Value]]()
    count = len(params) // (num_layers * directions)
    for layer in range(num_layers):
        outputs: list[Value] = []
        for n in range(layer * directions, (layer + 1) * directions):
            weights = list(params[n * count : (n + 1) * count])
            biases = [weights.pop(2), weights.pop(2)] if has_biases else None
            first = [state[n] for state in states]
            output, *ends = cell(x, weights, biases, first, n % directions == 1)
            outputs.append(output)
            last.append(ends)
        x = np.concatenate(outputs, axis=-1) if bidirectional else outputs[0]
    x = np.swapaxes(x, 0, 1) if batch_first else x
    return (x, *(np.stack(each) for each in zip(*last, strict=True)))


@aten("lstm.input")
def _lstm(x: Value, states: Sequence[Value], *how: Any) -> tuple[Value, ...]:
    return _layers(_lstm_cell, x, states, *how)


def _lstm_cell(
    x: Value, weights: Sequence[Value], biases: Any, first: Sequence[Value], reverse: bool
) -> tuple[Value, ...]:
    (w, r, *projections), (h, c) = weights, first
    bias = None if biases is None else biases[0] + biases[1]
    if not projections:
        return nn.lstm(x, w, r, bias, h, c, reverse=reverse)
    # Steps carry the state before its projection, and the recurrent weights contain that. The first
    # state is one behind it, which the first step takes as further inputs.
    (projection,) = projections
    is_first = np.zeros((x.shape[0], 1, 1), x.dtype)
    is_first[-1 if reverse else 0] = 1
    x, w = np.concatenate([x, is_first * h], axis=-1), np.concatenate([w, r], axis=-1)
    outputs, h, c = nn.lstm(x, w, r @ projection, bias, None, c, reverse=reverse)
    return outputs @ projection.T, h @ projection.T, c


@aten("gru.input")
def _gru(x: Value, state: Value, *how: Any) -> tuple[Value, ...]:
    def cell(
        x: Value, weights: Sequence[Value], biases: Any, first: Sequence[Value], reverse: bool
    ) -> tuple[Value, ...]:
        return nn.gru(x, *weights, *(biases or (None, None)), *first, reverse=reverse)

    return _layers(cell, x, [state], *how)


def _rnn(activation: str) -> Callable[..., tuple[Value, ...]]:
    def cell(
        x: Value, weights: Sequence[Value], biases: Any, first: Sequence[Value], reverse: bool
    ) -> tuple[Value, ...]:
        bias = None if biases is None else biases[0] + biases[1]
        return nn.rnn(x, *weights, bias, *first, reverse=reverse, activation=activation)

    return lambda x, state, *how: _layers(cell, x, [state], *how)


aten("rnn_tanh.input")(_rnn("tanh"))
aten("rnn_relu.input")(_rnn("relu"))
