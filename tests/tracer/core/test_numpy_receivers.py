"""NumPy's own arrays with traced arguments: ``table[ids]``, ``table.take(ids)``, ``w.dot(x)``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core import numpy_receivers

TABLE = np.arange(28, dtype=np.float32).reshape(7, 4)
IDS = np.array([[3, 0, -1], [6, 6, 2]])
FLAT = np.array([0, 3, 1])


@dataclass(frozen=True)
class Model:
    """As user code holds its weights."""

    weights: dict[str, Any]

    def __call__(self, ids: Any) -> Any:
        return self.weights["embedding"][ids] * 2


class Plain:
    def __init__(self) -> None:
        self.tables = [TABLE, TABLE * 2]

    def run(self, ids: Any) -> Any:
        return self.tables[1][ids, :2]


PLAIN, HELD = Plain(), {"embedding": TABLE}


def helper(ids: Any) -> Any:
    return TABLE[ids]


def closed_over(table: Any) -> Callable[[Any], Any]:
    return lambda ids: table[ids].sum(axis=-1)


def several(ids: Any) -> Any:
    total = 0
    for table in (TABLE, TABLE + 1, TABLE.T[:, :4]):
        total = total + table[ids % 4]
    return total


USES: dict[str, Callable[[Any], Any]] = {
    "a global": lambda ids: TABLE[ids],
    "a helper's": lambda ids: helper(ids) + 1,
    "a closure's": closed_over(TABLE),
    "in a dict": lambda ids: HELD["embedding"][ids],
    "an attribute": PLAIN.run,
    "made while tracing": lambda ids: np.eye(7, dtype=np.float32)[ids],
    "two axes": lambda ids: TABLE[ids, ids % 4],
    "beside a slice": lambda ids: TABLE[1:][ids % 6, 1:3],
    "with an ellipsis": lambda ids: TABLE[..., ids % 4],
    "with a new axis": lambda ids: TABLE[None, ids],
    "in a list": lambda ids: TABLE[[0, 1]] + TABLE[ids[0][:2]],
    "a list of scalars": lambda ids: TABLE[[ids[0, 0], ids[0, 1]]],
    "one scalar": lambda ids: TABLE[ids[1, 2]],
    "a slice from a scalar on": lambda ids: TABLE[ids[1, 2] : ids[1, 2] + 2, 1:],
    "of integers": lambda ids: np.arange(7)[ids],
    "several tables": several,
    "a view": lambda ids: TABLE.T[::-1].T[ids],
    "take": lambda ids: TABLE.take(ids, axis=0),
    "np.take": lambda ids: np.take(TABLE, ids, axis=0),
    "dot": lambda ids: TABLE.T.dot(np.ones((7, 1), np.float32) * ids.max()),
    "clip": lambda ids: np.arange(3).clip(ids[0], ids[1]),
    "a method": Model({"embedding": TABLE}),
}


@pytest.mark.parametrize("use", USES)
def test_it_is_what_numpy_gives(use: str) -> None:
    function = USES[use]
    wanted = function(IDS)
    found = lw.compile(lambda ids: function(ids))(IDS)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_table_is_a_named_constant() -> None:
    text = lw.compile(lambda ids: TABLE[ids]).trace(IDS).as_text(spans=False)
    assert "take(meta[TABLE]" in text


def test_a_memory_map_is_a_table(tmp_path: Path) -> None:
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=TABLE.shape)
    stored[:] = TABLE
    np.testing.assert_array_equal(lw.compile(lambda ids: stored[ids])(IDS), TABLE[IDS])


def test_numpy_is_as_it_was_afterwards() -> None:
    before = dict(np.ndarray.__dict__)
    lw.compile(lambda ids: TABLE[ids])(IDS)
    assert dict(np.ndarray.__dict__) == before
    with pytest.raises(IndexError) as caught:
        TABLE[9]
    assert len(caught.traceback) == 1
    with pytest.raises(ZeroDivisionError):
        lw.compile(lambda ids: TABLE[ids] * (1 // 0))(IDS)
    assert dict(np.ndarray.__dict__) == before


def test_numpy_is_as_it_was_where_the_change_fails_halfway(monkeypatch: Any) -> None:
    before = dict(np.ndarray.__dict__)
    change = numpy_receivers._change

    def interrupted(methods: dict[str, Any], subscript: int) -> None:
        change(methods, subscript)
        if methods is not numpy_receivers._NUMPYS:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(numpy_receivers, "_change", interrupted)
        with pytest.raises(KeyboardInterrupt), numpy_receivers.receiving():
            pass
    assert numpy_receivers._depth == 0
    assert dict(np.ndarray.__dict__) == before
    assert numpy_receivers._slot().value == numpy_receivers._SUBSCRIPT


def test_nested_and_simultaneous_traces_share_the_change() -> None:
    before = dict(np.ndarray.__dict__)
    inner = lw.compile(lambda ids: TABLE[ids] + 1)
    outer = lw.compile(lambda ids: inner(ids) + TABLE[ids])
    results: dict[int, Any] = {}
    start = threading.Barrier(4)

    def run(number: int) -> None:
        start.wait()
        results[number] = lw.compile(lambda ids: TABLE[ids] * number)(IDS)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    np.testing.assert_array_equal(outer(IDS), 2 * TABLE[IDS] + 1)
    for thread in threads:
        thread.join()
    for number in range(4):
        np.testing.assert_array_equal(results[number], number * TABLE[IDS])
    assert numpy_receivers._depth == 0 and dict(np.ndarray.__dict__) == before


def test_a_system_that_does_not_tell_of_its_memory(monkeypatch: Any) -> None:
    def refuse(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert not numpy_receivers._is_writable()


def test_other_arrays_and_threads_are_not_disturbed() -> None:
    wrong: list[Any] = []
    stop = threading.Event()

    def index() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            i = int(rng.integers(7))
            if not (TABLE[i] == np.arange(4 * i, 4 * i + 4)).all() or TABLE[i, 2] != 4 * i + 2:
                wrong.append(i)
            try:
                TABLE[i + 7]
            except IndexError:
                continue
            wrong.append(i)

    thread = threading.Thread(target=index)
    thread.start()
    try:
        for n in range(30):
            ids = np.arange(n + 1) % 7
            np.testing.assert_array_equal(
                lw.compile(lambda ids: TABLE[ids]).trace(ids).name, "<lambda>"
            )
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_writing_into_an_array_from_outside_is_still_refused() -> None:
    def write(ids: Any) -> Any:
        TABLE[0] = ids[0, 0]
        return TABLE[ids]

    with pytest.raises(lw.LoopwrightTypeError, match="writes a traced value into a NumPy array"):
        lw.compile(write)(IDS)


def test_without_the_hooks_the_error_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_receivers, "available", lambda: False)
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.compile(lambda ids: TABLE[ids])(IDS)
    assert caught.value.hint == "lw.xp.take(TABLE, ids, axis=0)"


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(lw.LoopwrightIndexError, match="boolean index did not match"):
        lw.compile(lambda ids: TABLE[ids > 0])(FLAT)
