"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..answers import serve
from ..libraries import result_of
from .peers import PEERS, State, answer_tokens

__all__ = ["CLOSE", "prepare", "repeated"]

CLOSE = {"float32": 1e-3, "bfloat16": 1e-3, "int8": 0.05, "int4": 0.05}
"""Largest difference of scores that may be, as a part of the largest one, by the kind of the
weights: rows are rounded to bytes where they are multiplied with such."""
_MADE: dict[str, Callable[[int], State]] = {}
_CALLS = 5


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a token at a position ready; returns a call of as many tokens as an answer has, their
    number, the seconds of the first token, how far its scores are off, and how often a later one
    asks for memory (None: not known)."""
    start = time.perf_counter()
    if peer not in _MADE:
        _MADE[peer] = PEERS[peer].make(command["threads"])
    state = _MADE[peer](command["position"])
    got = result_of(state.call())
    ready = time.perf_counter() - start
    wrong = 0.0
    if not state.tokens:
        expected = np.load(command["expected"])
        wrong = float(np.abs(got.ravel() - expected).max() / np.abs(expected).max())
    if not wrong <= CLOSE[PEERS[peer].kind]:
        raise ValueError(f"wrong scores at {command['position']}: off by {wrong:.3g}")
    tokens = state.tokens or answer_tokens(command["position"])
    asked = None
    if state.requests is not None:
        state.call()
        before = state.requests()
        for _ in range(_CALLS):
            state.call()
        asked = (state.requests() - before) / _CALLS
    answer = {"tokens": tokens, "ready": ready, "wrong": wrong, "asked": asked}
    return state.call if state.tokens else repeated(state.call, tokens), answer


def repeated(call: Callable[[], Any], count: int) -> Callable[[], Any]:
    """Returns a call that makes ``count`` of them: the best of many single tokens is not to be
    compared with the best of a few answers."""

    def calls() -> Any:
        for _ in range(count):
            result = call()
        return result

    return calls


if __name__ == "__main__":
    serve(sys.argv[1], prepare)
