"""In-place operators, ``out=`` and assignment mean what they mean in NumPy.

Each program runs in plain NumPy and compiled, on copies of the same arguments; results, their
dtypes, and what the arguments hold afterwards must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from in_place_programs import I4, D, G, X, check, run, same

PROGRAMS = [
    "x += g",  # a parameter
    "x += g; return x",
    "y = x; y += 1; return x * 2",  # an alias
    "r = x[0]; r += 1; return x",  # a view
    "r = x[0]; x += 1; return r",
    "for r in x: r -= r.mean()",
    "for r in x.T: r /= r.max()",
    "x += d; return x",  # float64 into float32
    "x -= d.sum(); x *= 2; x /= 3; x **= 2; return x",
    "x //= 3; x %= 2",
    "i <<= 1; i |= 1; i &= 6; i ^= 3; i >>= 1; return i",
    "x @= np.eye(4, dtype=np.float32) * 2",
    "t = x.T; t[0] = 5; t[1:3, 1] += x[0, 0]; return t",
    "y = x.reshape(-1); y[3:7] = -1; return y",
    "y = x.ravel(); y += 1",
    "y = x.flatten(); y += 1; return y",
    "y = x.copy(); y += 1; return y",
    "y = x.astype(np.float32); y += 1; return y",
    "y = x.astype(np.float32, copy=False); y += 1; return y",
    "y = x + 1; z = y[::-1]; z[0] = 9; return y, z",
    "y = x.T + 1; z = y.reshape(-1); z += 1; return y, z",  # the sum is in Fortran order
    "y = x.T * g.T; z = y.ravel(); z += 1; return y, z",
    "y = x * 2; z = y.reshape(-1); z += 1; return y, z",
    "y = x.swapaxes(0, 1)[None]; y *= 2; return y.squeeze()",
    "y = np.expand_dims(x, 1); y[1, 0, ::2] = 7; return y",
    "y = np.flip(x, 1); y[:, 0] = 3; y = np.rot90(x); y[0] += 1",
    "y = np.moveaxis(x, 0, 1)[1:3]; y -= 4; return y",
    "y = np.atleast_3d(x); y *= 2",
    "a, b = np.split(x, 2, axis=1); a += b; return a, b",
    "a, b, c = np.array_split(x, 3); c[...] = a; b.fill(0)",
    "x[1:, ::2] *= 3; return x.sum()",
    "x[0] += 1; x[1] += x[0]; x[-1] = x[1]; return x[0]",
    "x[1, 2] += 5; x[-1, -1] = x[0, 1]",
    "x[..., None][2] = 7; x[:0] = 1; x[:, 3:1] += 1",
    "x[1:] = x[:-1]; return x",  # overlapping
    "x[:, ::-1] = x",
    "x[::-1, 1::2] += x[:, 1::2]",
    "x[0] = np.ones((1, 4)); x[1] = 2.5; x[2] = d; x[:, 0] = i[:3]",
    "i[1:3] = 2.9; i[0] = True; i[3] = d[1]",  # assignment casts as astype does
    "x[x > 5] = 0; return x",
    "x[x[:, 0] > 3] = d",
    "x[np.array([True, False, True])] = -1",
    "x[x > 5] += 1; x[g[:, 0] > 0] *= d; x[np.array([True, False, True])] -= 1; return x",
    "i[i > 1] //= 2; m = x[0] > 2; x[0][m] = 4; x.T[m] **= 2",
    "m = g > 0; x[m] = 1; x[~m] = x.sum()",
    "np.add(x, 1, out=x); np.sqrt(x, out=x); return x",
    "y = np.empty_like(x); np.multiply(x, d, out=y); return y",
    "y = np.zeros_like(x); z = np.maximum(x, g, out=y, where=x > 3); return y, z",
    "y = np.zeros((2, 3, 4)); z = lw.xp.zeros((2, 3, 4)) + x; np.add(x, d, out=z); return z",
    "y, z = x + 0, x + 0; np.divmod(x, 3, out=(y, z)); return y, z",
    "y = np.zeros_like(x[0]); np.sum(x, axis=0, out=y); x.max(axis=0, out=g[1]); return y",
    "y = np.matmul(x, x.T); np.matmul(x, g.T, out=y); return y",
    "np.copyto(x, g); np.copyto(x, 3, where=x > 0); g.fill(2)",
    "np.copyto(x[0], d); np.putmask(x, x > 0.5, 9)",
    "s = x.sum(); t = s; s += 1; return s, t",  # scalars are replaced
    "s = x[0, 0]; s += 1; return s",
    "s = x[0, 0, ...]; s += 1; return s",  # an array of rank 0 is changed
    "s = x[1, 1]; x += 1; return s",
    "s = i[0]; s += d[3]; return s",  # int64 + float64 rebinds as float64
    "d2 = np.diagonal(x); x += 1; return d2",
    "e = np.einsum('ij->ji', x); x += 1; return e",
    "b = np.broadcast_to(x[0], (2, 4)); x *= 2; return b",
    "p = x[:, [0, 2]]; p += 1; return p",  # an index of arrays copies
    "p = np.take(x, [0], axis=0); p += 1; return p",
    "p = +x; q = x.conj(); p += 1; q += 1; return p",
    "p = np.where(x > 3, x, 0); p -= 1; return p",
    "p = np.concatenate([x]); q = np.clip(x, None, None) if 0 else p; q += 1; return q",
    "p = np.roll(x, 1); p *= 3; q = np.tril(x); q += 1; return p, q",
    "p = lw.nn.softmax(x); p -= 1; x += p; return p",
    "x += x.T.sum(); x += x; return x, x",
    "h = x; x = x + 1; x += 1; return h",  # a new array under the old name
    "out = lw.xp.zeros(3); return [out.__setitem__(k, x[k].sum()) for k in range(3)], out",
    "y = x.real; y += 1; z = lw.xp.asarray(x); z *= 2; w = lw.xp.asarray(x, copy=True); w += 1",
    "b = x > 3; b |= g > 0; b &= True; return b",
    "x[1:][:, 1:][0, :2] = 8; x[1:][0][1:3] += x[1:][0][:2]",
    "a = x[1:]; b = a.T; c = b[1:]; c += 1; a *= 2; return b",
    "x[0] = 1; x[0] = 2; x[1:, 0] = 3; y = x[0] + x[1]; x[0] = y; return y",
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_as_numpy_has_it(text: str) -> None:
    check(run(text), X, G, D, I4)


def test_arguments_of_other_layouts() -> None:
    """Whether a reshape is a view depends on how the argument lies in memory."""
    texts = (
        "y = x.reshape(-1); y += 1; return y",
        "y = x.reshape(2, 6); y[0] = 1; x *= 2; return y",
        "y = (x * 2).ravel(); z = y[1:]; z += 1; return y",
        "y = x + 1; z = y.reshape(-1); z += 1; return y",
        "x += g; return x.T",
    )
    cuts: list[Callable[[Any], Any]] = [
        lambda base: base[:3, :4].copy(order="F"),
        lambda base: base[::2, ::2],
        lambda base: base[::-2, :4],
        lambda base: base[:3, 3::-1],
        lambda base: base.T[:6:2, :4],
        lambda base: base[:3, :4].copy(),
    ]
    for text in texts:
        program = run(text)
        function = lw.compile(program)
        for cut in cuts:
            plain, compiled = (np.arange(48, dtype=np.float32).reshape(6, 8) for _ in range(2))
            x, y = cut(plain), cut(compiled)
            same(program(x, G, D, I4), function(y, G, D, I4))
            same(plain, compiled)
            same(x, y)


def test_the_result_is_the_callers_array() -> None:
    def changed(x, y):
        x += 1
        y[0] = 2
        return x, {"y": y}, x[0], y

    function = lw.compile(changed)
    for _ in range(2):
        x, y = X.copy(), G.copy()
        a, b, c, d = function(x, y)
        assert a is x and b["y"] is y and d is y
        same(c, x[0])


def test_an_argument_given_twice() -> None:
    def changed(x, y):
        x += y
        y *= 2
        return x

    def views(x, y):
        r = x[0]
        y += 1
        return r * 2

    for program in (changed, views):
        plain, compiled = X.copy(), X.copy()
        function = lw.compile(program)
        same(program(plain, plain), function(compiled, compiled))
        same(plain, compiled)
        check(program, X, G)


def test_nested_arguments_are_written_back() -> None:
    def step(state, grads):
        for name, g in grads.items():
            state["w"][name] -= 0.1 * g
        for m in state["moments"]:
            m *= 0.9

    def made() -> Any:
        return {"w": {"a": X.copy(), "b": D.copy()}, "moments": [X.copy(), G.copy()], "n": 3}

    plain, compiled = made(), made()
    grads = {"a": G, "b": D}
    step(plain, grads)
    lw.compile(step)(compiled, grads)
    same(plain, compiled)


def test_called_while_another_function_is_traced() -> None:
    @lw.compile
    def inner(x):
        x[0] += 1
        return x

    def outer(x):
        y = inner(x)
        y *= 2
        return x.sum()

    check(outer, X)


def test_scalars_and_arrays_of_rank_0() -> None:
    def program(s):
        t = s
        s += 1.5
        return s, t

    for s in (np.float32(2), np.array(2, np.float32), 3, 2.5, np.array(2.5)):
        check(program, s)
    function = lw.compile(program)
    same(program(np.float32(2)), function(np.float32(2)))
    array, plain = np.array(2, np.float32), np.array(2, np.float32)
    same(program(plain), function(array))
    same(plain, array)


def test_only_what_changed_is_written_back() -> None:
    def program(x, k):
        x[1] = k
        x[5:9] *= 2

    traced = lw.compile(program).trace(lw.f32[1000], lw.f32[()])
    keys = [piece.key for written in traced.written for piece in written.pieces]
    assert keys == [(slice(1, 2, 1),), (slice(5, 9, 1),)]
    check(program, np.arange(1000, dtype=np.float32), np.float32(3))


def test_programs_that_write_nothing_have_the_same_graph() -> None:
    traced = lw.compile(lambda x: x[1:].T.reshape(-1) * 2).trace(lw.f32[4, 3])
    assert traced.as_text(spans=False) == (
        "def @main(%x: Tensor[(4, 3), float32]) -> Tensor[(9), float32] {\n"
        "  %0 = strided_slice(%x, begin=[1, 0], end=[4, 3], strides=[1, 1]);\n"
        "  %1 = transpose(%0, axes=[1, 0]);\n"
        "  %2 = reshape(%1, newshape=[9]);\n"
        "  multiply(%2, 2f)\n"
        "}"
    )
    assert not traced.depends_on_memory


def _shaped(x):
    y = x + 1
    z, w = y[1:3], y[::-1]
    y.shape = (2, 3)
    row = y[1]
    row += 5
    turned = y.T
    y.shape = -1
    y[0] = 100
    return y, z, w, row, turned


def _shaped_view(x):
    part = x[1:5]
    part.shape = 2, 2
    part[1] = 9
    return part


def _shaped_in_a_loop(x):
    for i in range(20):
        z = x * i
        z.shape = (3, 2)
        x[0] += z[1, 1]
    return x


def _shaped_name(x):
    y = z = (x * 2)[::2]
    y.shape = (3, 1)
    z[1, 0] = 7
    return y, z


@pytest.mark.parametrize("function", [_shaped, _shaped_view, _shaped_in_a_loop, _shaped_name])
def test_an_assigned_shape_is_a_view_of_the_array(function: Callable[..., Any]) -> None:
    theirs, ours = np.arange(1.0, 7.0), np.arange(1.0, 7.0)
    same(function(theirs), lw.compile(function)(ours))
    same(theirs, ours)


def _of_an_argument(x):
    x.shape = (2, 3)


def _of_a_copy_in_a_branch(x):
    y = x * 2
    if x[0] > 0:
        y.shape = (2, 3)
    return y


def _that_needs_a_copy(x):
    y = np.outer(x, x).T
    y.shape = 36


@pytest.mark.parametrize("function", [_of_an_argument, _of_a_copy_in_a_branch, _that_needs_a_copy])
def test_a_shape_that_cannot_be_assigned(function: Callable[..., Any]) -> None:
    with pytest.raises(AttributeError, match="the shape of a traced array cannot be assigned"):
        lw.compile(function)(np.arange(6.0))
