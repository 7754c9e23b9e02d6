"""Recurrent layers: one layer in one direction each, which others are made of.

A layer is one matrix product of the inputs of all steps, and then the steps, in one kernel whose
code does not grow with their number. A second direction is a second call with ``reverse=True``, a
second layer a call with the outputs of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtype import float_for
from ...ir.errors import LoopwrightTypeError
from ...ir.ops.recurrence import GATES
from ..core.argument_conversion import Names, Numbers, checked
from ..core.emitting import common_dtype
from ..core.proxy import Proxy
from .apply import apply_as_given


@checked
def lstm(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    h: Any = None,
    c: Any = None,
    *,
    peepholes: Any = None,
    lengths: Any = None,
    reverse: bool = False,
    input_forget: bool = False,
    clip: float = 0.0,
    activations: Names = ("sigmoid", "tanh", "tanh"),
    alphas: Numbers = (),
    betas: Numbers = (),
) -> Any:
    """Long short-term memory, one layer in one direction: (outputs, last h, last c).

    ``x`` is ``(steps, batch, inputs)``, ``w`` is ``(4 * hidden, inputs)``, ``r`` is
    ``(4 * hidden, hidden)`` and ``bias`` is ``(4 * hidden,)``, for the gates i, f, g, o in this
    order, as PyTorch has it; ``h`` and ``c``, ``(batch, hidden)``, are the first states, zeros if
    left out. The outputs are ``(steps, batch, hidden)``. ``peepholes`` ``(3, hidden)`` multiply c
    into i, f and o. Sequences may have ``lengths`` of their own, ``(batch,)``: behind its end a
    sequence keeps its state, and its outputs are zero. ``reverse`` begins with the last step.
    ``clip`` bounds what activations are applied to, unless it is 0; ``input_forget`` makes f of i.
    Raises LoopwrightTypeError where shapes do not fit.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> x, w, r = np.ones((5, 1, 3)), np.full((8, 3), 0.1), np.full((8, 2), 0.2)
    >>> outputs, h, c = nn.lstm(x, w, r)
    >>> outputs.shape, h.round(3).tolist(), c.shape
    ((5, 1, 2), [[0.273, 0.273]], (1, 2))
    """
    given = _Layer("lstm", x, r, bias, h, lengths, reverse, clip)
    more = [given.state(c), *([] if peepholes is None else [peepholes])]
    rows = given.rows(
        w,
        more,
        peepholes=peepholes is not None,
        input_forget=input_forget,
        activations=activations,
        alphas=alphas,
        betas=betas,
    )
    return rows[:-2], rows[-2], rows[-1]


@checked
def gru(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    recurrent_bias: Any = None,
    h: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
    reset_after: bool = True,
    clip: float = 0.0,
    activations: Names = ("sigmoid", "tanh"),
    alphas: Numbers = (),
    betas: Numbers = (),
) -> Any:
    """Gated recurrent unit, one layer in one direction: (outputs, last h).

    ``w``, ``r``, ``bias`` and ``recurrent_bias`` have the gates r, z, n in this order. With
    ``reset_after``, as in PyTorch, r multiplies the product of the state with ``r`` and its bias;
    else it multiplies the state before. Everything else as in ``lstm``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> outputs, h = nn.gru(np.ones((5, 1, 3)), np.full((6, 3), 0.1), np.full((6, 2), 0.2))
    >>> outputs.shape, h.round(3).tolist()
    ((5, 1, 2), [[0.317, 0.317]])
    """
    given = _Layer("gru", x, r, recurrent_bias, h, lengths, reverse, clip)
    given.input_bias = bias
    rows = given.rows(
        w,
        [],
        reset_after=reset_after,
        activations=activations,
        alphas=alphas,
        betas=betas,
    )
    return rows[:-1], rows[-1]


@checked
def rnn(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    h: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
    clip: float = 0.0,
    activation: str = "tanh",
    alpha: float = 0.0,
    beta: float = 0.0,
) -> Any:
    """Plain recurrent layer, ``h = activation(x @ w.T + h @ r.T + bias)``: (outputs, last h).

    Everything else as in ``lstm``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> outputs, h = nn.rnn(np.ones((5, 1, 3)), np.full((2, 3), 0.1), np.full((2, 2), 0.2))
    >>> outputs.shape, h.round(3).tolist()
    ((5, 1, 2), [[0.443, 0.443]])
    """
    given = _Layer("rnn", x, r, bias, h, lengths, reverse, clip)
    rows = given.rows(w, [], activations=(activation,), alphas=(alpha,), betas=(beta,))
    return rows[:-1], rows[-1]


class _Layer:
    """The operands that the cells have in common, of one dtype."""

    def __init__(
        self,
        cell: str,
        x: Any,
        r: Any,
        bias: Any,
        h: Any,
        lengths: Any,
        reverse: bool,
        clip: float,
    ) -> None:
        if np.ndim(x) != 3 or np.ndim(r) != 2:
            raise LoopwrightTypeError(
                f"{cell}: x is (steps, batch, inputs) and r is (gates * hidden, hidden), not "
                f"{tuple(np.shape(x))} and {tuple(np.shape(r))}"
            )
        self.cell, self.x, self.r, self.h = cell, x, r, h
        self.dtype = float_for(common_dtype(x, r)).numpy
        self.bias = np.zeros(np.shape(r)[0], self.dtype) if bias is None else bias
        self.input_bias: Any = None
        self.lengths = lengths
        self.attrs = {
            "cell": cell,
            "reverse": reverse,
            "clip": clip,
            "lengths": lengths is not None,
        }

    def state(self, given: Any) -> Any:
        if given is not None:
            return given
        return np.zeros((np.shape(self.x)[1], np.shape(self.r)[1]), self.dtype)

    def rows(self, w: Any, more: Sequence[Any], **attrs: Any) -> Any:
        """Returns h of each step, then the last states."""
        steps, batch, inputs = np.shape(self.x)
        width = GATES[self.cell] * np.shape(self.r)[1]
        if tuple(np.shape(w)) != (width, inputs) or np.shape(self.r)[0] != width:
            raise LoopwrightTypeError(
                f"{self.cell}: w is ({width}, {inputs}) and r is ({width}, {np.shape(self.r)[1]}), "
                f"not {tuple(np.shape(w))} and {tuple(np.shape(self.r))}"
            )
        flat = np.reshape(self.x, (steps * batch, inputs))
        gates = np.matmul(flat, np.transpose(w))
        if self.input_bias is not None:
            gates = gates + self.input_bias
        floats = [
            np.reshape(gates, (steps, batch, width)),
            np.transpose(self.r),
            self.bias,
            self.state(self.h),
            *more,
        ]
        operands = [self.converted(each) for each in floats]
        if self.lengths is not None:
            operands.append(self.lengths)
        return apply_as_given("recurrence", *operands, **{**self.attrs, **attrs})

    def converted(self, value: Any) -> Any:
        if type(value) is Proxy:
            return value.astype(self.dtype)
        return np.asarray(value, self.dtype)
