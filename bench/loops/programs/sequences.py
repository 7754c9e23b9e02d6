"""Scans over time: recurrent cells, filters, decoding."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []

ONE = np.float32(1)


def _cell(gates: int) -> Any:
    def inputs(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
        width = 4 * size

        def weight(*shape: int) -> Any:
            return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

        xs, start = weight(size, 2, width), np.zeros((2, width), np.float32)
        return xs, start, weight(width, gates * width), weight(width, gates * width)

    return inputs


def lstm_plain(xs: Any, start: Any, inward: Any, along: Any) -> Any:
    width = start.shape[1]
    hidden, cell = start.copy(), start.copy()
    for t in range(len(xs)):
        gates = np.dot(xs[t], inward) + np.dot(hidden, along)
        for b in range(len(start)):
            for i in range(width):
                take = ONE / (ONE + np.exp(-gates[b, i]))
                keep = ONE / (ONE + np.exp(-gates[b, width + i]))
                show = ONE / (ONE + np.exp(-gates[b, 3 * width + i]))
                new = keep * cell[b, i] + take * np.tanh(gates[b, 2 * width + i])
                cell[b, i] = new
                hidden[b, i] = show * np.tanh(new)
    return hidden


def _sigmoid(x: Any) -> Any:
    return ONE / (ONE + np.exp(-x))


@program(lstm_plain, _cell(4), small=3, large=32, tolerance=1e-4, arrays=65_536)
def lstm(xs: Any, start: Any, inward: Any, along: Any) -> Any:
    """The last state of a long short-term memory, batch 2."""

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        take, keep, new, show = np.split(x @ inward + hidden @ along, 4, axis=1)
        cell = _sigmoid(keep) * cell + _sigmoid(take) * np.tanh(new)
        return (_sigmoid(show) * np.tanh(cell), cell), None

    return lw.scan(step, (start, start), xs)[0][0]


def gru_plain(xs: Any, start: Any, inward: Any, along: Any) -> Any:
    width = start.shape[1]
    hidden = start.copy()
    states = np.zeros((len(xs), len(start), width), np.float32)
    for t in range(len(xs)):
        here, before = np.dot(xs[t], inward), np.dot(hidden, along)
        for b in range(len(start)):
            for i in range(width):
                reset = ONE / (ONE + np.exp(-here[b, i] - before[b, i]))
                keep = ONE / (ONE + np.exp(-here[b, width + i] - before[b, width + i]))
                new = np.tanh(here[b, 2 * width + i] + reset * before[b, 2 * width + i])
                hidden[b, i] = (ONE - keep) * new + keep * hidden[b, i]
                states[t, b, i] = hidden[b, i]
    return states


@program(gru_plain, _cell(3), small=3, large=32, tolerance=1e-4, arrays=49_152)
def gru(xs: Any, start: Any, inward: Any, along: Any) -> Any:
    """All states of a gated recurrent unit, batch 2."""

    def step(hidden: Any, x: Any) -> Any:
        reset, keep, new = np.split(x @ inward, 3, axis=1)
        reset_before, keep_before, new_before = np.split(hidden @ along, 3, axis=1)
        keep = _sigmoid(keep + keep_before)
        new = np.tanh(new + _sigmoid(reset + reset_before) * new_before)
        hidden = (ONE - keep) * new + keep * hidden
        return hidden, hidden

    return lw.scan(step, start, xs)[1]


def _attention(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return tuple(rng.random((size, 16)).astype(np.float32) for _ in range(3))


def linear_attention_plain(queries: Any, keys: Any, values: Any) -> Any:
    width = keys.shape[1]
    memory, mass = np.zeros((width, width), np.float32), np.zeros(width, np.float32)
    results = np.zeros_like(values)
    for t in range(len(queries)):
        for i in range(width):
            mass[i] += keys[t, i]
            for j in range(width):
                memory[i, j] += keys[t, i] * values[t, j]
        total = np.float32(0)
        for i in range(width):
            total += queries[t, i] * mass[i]
            for j in range(width):
                results[t, j] += queries[t, i] * memory[i, j]
        for j in range(width):
            results[t, j] /= total
    return results


@program(linear_attention_plain, _attention, small=6, large=2000, tolerance=1e-4, arrays=256)
def linear_attention(queries: Any, keys: Any, values: Any) -> Any:
    """Causal attention without softmax: its state is a matrix."""

    def step(state: Any, row: Any) -> Any:
        memory, mass = state
        query, key, value = row
        memory = memory + key[:, None] * value
        mass = mass + key
        return (memory, mass), (query @ memory) / (query @ mass)

    width = keys.shape[1]
    start = np.zeros((width, width), np.float32), np.zeros(width, np.float32)
    return lw.scan(step, start, (queries, keys, values))[1]


def _series(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return 0.9 * rng.random(size), rng.normal(size=size)


def prefixes_plain(decays: Any, values: Any) -> Any:
    n = len(values)
    sums, peaks, smooth = np.zeros(n), np.zeros(n), np.zeros(n)
    total, peak, mean = 0.0, -np.inf, 0.0
    for i in range(n):
        total += values[i]
        peak = max(peak, values[i])
        mean = decays[i] * mean + values[i]
        sums[i], peaks[i], smooth[i] = total, peak, mean
    return sums, peaks, smooth


@program(prefixes_plain, _series, small=20, large=200_000, tolerance=1e-9)
def prefixes(decays: Any, values: Any) -> Any:
    """Sums, maxima and a linear recurrence over all that came before."""

    def step(state: Any, row: Any) -> Any:
        total, peak, mean = state
        decay, value = row
        state = total + value, np.maximum(peak, value), decay * mean + value
        return state, state

    return lw.scan(step, (0.0, -np.inf, 0.0), (decays, values))[1]


MOTION = np.array([[1.0, 1.0], [0.0, 1.0]])
NOISE = np.array([[0.01, 0.0], [0.0, 0.01]])


def kalman_plain(_: Any, seen: Any) -> Any:
    state, spread = np.zeros(2), np.eye(2)
    places = np.zeros(len(seen))
    for t in range(len(seen)):
        state = np.dot(MOTION, state)
        spread = np.dot(np.dot(MOTION, spread), MOTION.T) + NOISE
        gain = spread[:, 0] / (spread[0, 0] + 1.0)
        row = spread[0].copy()
        state = state + gain * (seen[t] - state[0])
        for i in range(2):
            for j in range(2):
                spread[i, j] -= gain[i] * row[j]
        places[t] = state[0]
    return places


@program(kalman_plain, _series, small=12, large=20_000, tolerance=1e-9, arrays=4)
def kalman(_: Any, seen: Any) -> Any:
    """Kalman's filter of a place that moves with an unknown speed."""

    def step(carry: Any, place: Any) -> Any:
        state, spread = carry
        state = MOTION @ state
        spread = MOTION @ spread @ MOTION.T + NOISE
        gain = spread[:, 0] / (spread[0, 0] + 1.0)
        state = state + gain * (place - state[0])
        return (state, spread - gain[:, None] * spread[0]), state[0]

    return lw.scan(step, (np.zeros(2), np.eye(2)), seen)[1]


STOP = 0


def _model(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    def weight(*shape: int) -> Any:
        return (0.9 * rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    letters = np.full(size, -1)
    out = weight(48, 29)
    out[:, STOP] *= np.float32(0.3)
    return weight(29, 48), weight(48, 48), out, letters


def decode_plain(embedding: Any, along: Any, out: Any, empty: Any) -> Any:
    letters, hidden = empty.copy(), np.zeros(len(along), np.float32)
    letter, count = 1, 0
    while letter != STOP and count < len(letters):
        hidden = np.tanh(embedding[letter] + np.dot(hidden, along))
        letter = np.argmax(np.dot(hidden, out))
        letters[count] = letter
        count += 1
    return letters, count


@program(decode_plain, _model, small=9, large=2000, arrays=2304)
def decode(embedding: Any, along: Any, out: Any, empty: Any) -> Any:
    """The likeliest letters of a recurrent model, until it says stop or the line is full."""

    def going(state: Any) -> Any:
        letters, _, letter, count = state
        return (letter != STOP) & (count < len(letters))

    def step(state: Any) -> Any:
        letters, hidden, letter, count = state
        hidden = np.tanh(embedding[letter] + hidden @ along)
        letter = np.argmax(hidden @ out)
        letters[count] = letter
        return letters, hidden, letter, count + 1

    start = empty.copy(), np.zeros(len(along), np.float32), 1, 0
    letters, _, _, count = lw.while_loop(going, step, start)
    return letters, count
