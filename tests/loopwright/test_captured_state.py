"""What a function captures may change between calls: the next call finds it as Python does."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import types
import warnings
import weakref
from collections import deque
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.runtime import memory_guard as memory
from loopwright.codegen.runtime.memory_guard import memory_guard
from loopwright.face import guards

OUTSIDE = """
import collections
import functools
import types
import warnings

NUMBER, FLAG, TABLE = 2.0, True, np.arange(6.0)
LARGE = np.ones(300_000)
MIDDLE = np.ones(100_000)
ROWS = np.ones((4, 6))
COLUMN = ROWS[:, 1]
READ_ONLY = np.ones(6)
READ_ONLY.flags.writeable = False
held = {"scale": 2.0, "inner": {"w": np.ones(6)}}
layers = [np.ones(6), np.ones(6)]
many = [np.full(6, float(n)) for n in range(20)]
queue = collections.deque([1.0, 2.0])
kinds = {1.0, 2.0}
settings = types.SimpleNamespace(gain=1.5)
order = {"a": 1.0, "b": 2.0}
MODULE = types.ModuleType("user_settings")
MODULE.factor = 4.0

def helper(v, by=0.5, *, more=0.0):
    return v * by + more

def other(v):
    return v - 7

def ending(v, weights=[np.ones(6)]):
    return v * weights[0]

def enclosing():
    w, s = np.ones(6), 2.0
    def inner(v):
        return v * w + s
    def change():
        nonlocal s
        s = 5.0
    def write():
        w[1] = 9.0
    return inner, change, write

inner, change, write = enclosing()
part = functools.partial(helper, by=3.0)

class Base:
    bias = 0.25

class Model(Base):
    def __init__(self):
        self.w, self.gain, self.blocks = np.ones(6), 2.0, [np.ones(6), np.ones(6)]

    def forward(self, x):
        return x * self.w * self.gain + self.blocks[0] + self.bias

    __call__ = forward

class Slotted:
    __slots__ = ("w",)

class Both(Slotted):
    def __getattr__(self, name):
        return 2.0  # of the slot of another class, while it is not set

class Later(Both):
    __slots__ = ("late",)

class Doubled(Base):
    @property
    def bias(self):
        return self.half * 2

model, slotted, doubled = Model(), Slotted(), Doubled()
slotted.w = np.ones(6)
both, later = Both(), Later()
both.w, both.gain, later.w, later.gain = np.ones(6), 3.0, np.ones(6), 3.0
doubled.half = 1.0
"""

# What is compiled, and the statement that changes what it captures.
WAYS: dict[str, tuple[str, str]] = {
    "an attribute of a callable object": ("model", "model.w = np.full(6, 3.0)"),
    "an element of its array": ("model", "model.w[4] = 3.0"),
    "a number of it": ("model", "model.gain = 5.0"),
    "an attribute of a method's self": ("model.forward", "model.w = np.full(6, 3.0)"),
    "an element of that": ("model.forward", "model.w[0] = -1.0"),
    "an array in the list of a self": ("model.forward", "model.blocks[0] = np.zeros(6)"),
    "a class attribute": ("model.forward", "Base.bias = 4.0"),
    "one that hides a class attribute": ("model.forward", "model.bias = 4.0"),
    "one of a class between": ("model.forward", "Model.bias = 4.0"),
    "a method": ("model", "Model.__call__ = lambda self, x: x"),
    "the class of an object": ("lambda x: x * doubled.bias", "doubled.__class__ = Base"),
    "all attributes": ("model", "model.__dict__ = {**vars(model), 'w': np.zeros(6)}"),
    "what a property reads": ("lambda x: x * doubled.bias", "doubled.half = 3.0"),
    "a slot beside attributes": ("lambda x: x * both.w * both.gain", "both.w = np.zeros(6)"),
    "an attribute beside slots": ("lambda x: x * both.w * both.gain", "both.gain = 4.0"),
    "a slot that is deleted": ("lambda x: x * both.w", "del both.w"),
    "a slot that is set": ("lambda x: x * later.late * later.w", "later.late = 5.0"),
    "a slot": ("lambda x: x * slotted.w", "slotted.w = np.zeros(6)"),
    "an array replaced in a list": ("lambda x: x * layers[1]", "layers[1] = np.zeros(6)"),
    "a longer list": ("lambda x: sum(layers, x)", "layers.append(np.ones(6))"),
    "a long list": ("lambda x: sum(many, x)", "many[17] = np.zeros(6)"),
    "a deque": ("lambda x: x * queue[0]", "queue.rotate()"),
    "a set": ("lambda x: x * len(kinds)", "kinds.add(3.0)"),
    "one element of a large array": ("lambda x: x + LARGE.sum()", "LARGE[77_777] = 2.0"),
    "one element of a middling array": ("lambda x: x + MIDDLE.sum()", "MIDDLE[77_777] = 2.0"),
    "exchanged rows": ("lambda x: x + TABLE[0]", "TABLE[[0, 5]] = TABLE[[5, 0]]"),
    "an array that a view is of": ("lambda x: x[:4] * COLUMN", "ROWS[2, 1] = 8.0"),
    "a read-only array": ("lambda x: x * READ_ONLY", "READ_ONLY = np.zeros(6)"),
    "the shape of an array": ("lambda x: x + ROWS.shape[0]", "ROWS.shape = 6, 4"),
    "an entry of a dict": ("lambda x: x * held['scale']", "held['scale'] = -1.0"),
    "a nested entry": ("lambda x: x * held['inner']['w']", "held['inner'] = {'w': np.zeros(6)}"),
    "an array in a nested entry": ("lambda x: x * held['inner']['w']", "held['inner']['w'][2] = 0"),
    "the order of a dict": ("lambda x: x * [*order.values()][0]", "order['a'] = order.pop('a')"),
    "a helper that is rebound": ("lambda x: helper(x)", "helper = other"),
    "defaults of a helper": ("lambda x: helper(x)", "helper.__defaults__ = (2.0,)"),
    "a default by keyword": ("lambda x: helper(x)", "helper.__kwdefaults__['more'] = 2.0"),
    "the code of a helper": ("lambda x: helper(x)", "helper.__code__ = other.__code__"),
    "an array in a default": ("lambda x: ending(x)", "ending.__defaults__[0][0][3] = 5.0"),
    "its own defaults": ("helper", "helper.__defaults__ = (2.0,)"),
    "what a partial holds": ("part", "part.keywords['by'] = 7.0"),
    "a global number": ("lambda x: x * NUMBER", "NUMBER = 3.0"),
    "a global that is negated": ("lambda x: x if FLAG else -x", "FLAG = not FLAG"),
    "a global array that is written": ("lambda x: x * TABLE", "TABLE[5] = 1.0"),
    "a global array that is bound anew": ("lambda x: x * TABLE", "TABLE = TABLE + 1"),
    "a global object's attribute": ("lambda x: x * settings.gain", "settings.gain += 1"),
    "a variable of a module": ("lambda x: x * MODULE.factor", "MODULE.factor = 1.0"),
    "a closure's variable": ("inner", "change()"),
    "a closure's array": ("inner", "write()"),
}

X = np.arange(1.0, 7.0)


def world() -> dict[str, Any]:
    variables: dict[str, Any] = {"np": np, "__name__": "outside"}
    exec(OUTSIDE, variables)
    return variables


@pytest.mark.parametrize("calls", [1, 3])  # from the second call on, words of memory are compared
@pytest.mark.parametrize("way", WAYS)
def test_a_change_of_what_is_captured_is_seen_by_the_next_call(way: str, calls: int) -> None:
    text, change = WAYS[way]
    variables = world()
    function = eval(text, variables)
    compiled = lw.compile(function)
    for misses, statement in ((1, "pass"), (2, change), (2, "pass")):
        exec(statement, variables)
        for _ in range(calls):
            np.testing.assert_allclose(compiled(X), function(X), rtol=1e-12)
        assert compiled.cache_info().misses == misses
    reason = compiled.cache_info().reasons[-1]
    assert reason.endswith(" has changed"), reason


# Statements after which every function computes what it did.
SAME = (
    "NUMBER = 4.0 / 2",
    "TABLE[:] = TABLE.copy()",
    "model.unread = 3",
    "model.w[:] = 1.0",
    "settings.gain = 3.0 / 2",
    "held['scale'] = 1.0 + 1.0",
    "UNREAD = 1",
    "helper.__defaults__ = (0.5,)",
)


@pytest.mark.parametrize(
    "text",
    [
        "model",
        "model.forward",
        "inner",
        "part",
        "lambda x: x * NUMBER + TABLE + settings.gain + held['scale']",
        "lambda x: sum(many, helper(x) + LARGE[5]) + order['a'] + queue[0] + len(kinds)",
    ],
)
def test_what_stays_as_it_is_is_compiled_once(text: str) -> None:
    variables = world()
    function = eval(text, variables)
    compiled = lw.compile(function)
    for statement in (*SAME, *SAME):
        exec(statement, variables)
        for x in (X, X.astype(np.float32), np.repeat(X, 2)[::2]):
            np.testing.assert_allclose(compiled(x), function(x), rtol=1e-6)
    assert compiled.cache_info().misses == 2


def test_attributes_that_are_not_read_leave_the_short_way_open() -> None:
    variables = world()
    compiled = lw.compile(variables["model"])
    for _ in range(3):
        compiled(X)
    variables["model"].unread = 3
    compiled(X)
    assert compiled._last.direct(X) is not None


def test_slots_are_compared_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a whole object anew in every call takes a microsecond for each attribute."""
    variables = world()
    compiled = lw.compile(eval("lambda x: x * slotted.w + both.w * both.gain", variables))
    compiled(X)
    monkeypatch.setattr("loopwright.tracer.core.snapshot.Record.read", pytest.fail)
    for _ in range(3):
        compiled(X)
    assert compiled._last.direct(X) is not None


@pytest.mark.parametrize(
    "function",
    [lambda x: np.exp(x) + len(x), lambda x: x + np.arange(6.0), np.tanh, lambda x: x * 2],
)
def test_code_that_captures_nothing_has_no_guard(function: Any) -> None:
    compiled = lw.compile(function)
    compiled(X)
    (made,) = compiled._known.values()
    assert made.guard is None


def test_arguments_that_are_objects_are_guarded_by_their_classes() -> None:
    variables = world()
    model = variables["Model"]()
    compiled = lw.compile(lambda m, x: m.forward(x))
    np.testing.assert_array_equal(compiled(model, X), model.forward(X))
    model.w = np.zeros(6)  # an array among the arguments: no other code
    np.testing.assert_array_equal(compiled(model, X), model.forward(X))
    assert compiled.cache_info().misses == 1
    variables["Base"].bias = 9.0
    np.testing.assert_array_equal(compiled(model, X), model.forward(X))
    assert compiled.cache_info().misses == 2


def test_keywords_and_written_arguments_are_guarded() -> None:
    variables = world()
    table = variables["TABLE"]

    def function(x: Any, factor: Any = 1.0) -> Any:
        return x * table * factor

    @lw.compile
    def write(x: Any) -> None:
        x += table

    compiled = lw.compile(function)
    for _ in range(2):
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x=X, factor=2.0), function(X, 2.0))
            target = X.copy()
            write(target)
            np.testing.assert_array_equal(target, X + table)
        table[1] += 1


def test_a_trace_that_changes_what_it_reads_runs_in_each_call() -> None:
    count = [0]

    @lw.compile
    def counted(x: Any) -> Any:
        count[0] += 1
        return x + count[0]

    assert [int(counted(X)[0]) for _ in range(3)] == [2, 3, 4]


def test_many_changes_are_warned_of_once() -> None:
    settings = types.SimpleNamespace(gain=0.0)
    compiled = lw.compile(lambda x: x * settings.gain)
    with pytest.warns(
        lw.RecompilationWarning, match=r"settings\.gain has changed each time"
    ) as all_:
        for _ in range(40):
            settings.gain += 1.0
            assert compiled(X)[0] == settings.gain
    assert len(all_) == 1


def test_two_callers_see_each_change(rng: np.random.Generator) -> None:
    settings = types.SimpleNamespace(gain=0.0, w=np.ones(1000))
    compiled = lw.compile(lambda x: x * settings.gain + settings.w[:6])
    wrong: list[Any] = []
    barrier = threading.Barrier(2)

    def run(first: bool) -> None:
        for turn in range(6):
            barrier.wait()
            if first:
                settings.gain, settings.w[0] = float(turn), turn * 2.0
            barrier.wait()
            for _ in range(20):
                if not np.array_equal(compiled(X), X * turn + settings.w[:6]):
                    wrong.append(turn)

    threads = [threading.Thread(target=run, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert compiled.cache_info().misses == 6


def test_a_saved_program_keeps_what_was_captured_when_it_was_saved(tmp_path: Any) -> None:
    model = world()["model"]
    compiled = lw.compile(model)
    compiled(X)
    model.w[2] = 5.0
    wanted = model(X)
    compiled.lower(X).save(tmp_path / "model.lw")
    model.w[2] = 7.0
    np.testing.assert_array_equal(lw.load(tmp_path / "model.lw")(X), wanted)
    np.testing.assert_array_equal(compiled(X), model(X))


def test_tuned_code_is_guarded() -> None:
    model = world()["model"]
    compiled = lw.compile(model)
    compiled.tune(X, trials=1, budget=None)
    assert compiled.cache_info().reasons == ("tuned",)
    np.testing.assert_array_equal(compiled(X), model(X))
    model.w = np.zeros(6)
    np.testing.assert_array_equal(compiled(X), model(X))
    assert compiled.cache_info().reasons == ("Model.w has changed",)


def test_code_tuned_in_the_background_for_old_weights_is_not_installed() -> None:
    model = world()["model"]
    compiled = lw.compile(model)
    compiled(X)
    (request, made), *_ = compiled._known.items()
    assert compiled._install(request, made.built, made.built)
    assert compiled._known[request].guard is made.guard
    model.w = np.zeros(6)
    np.testing.assert_array_equal(compiled(X), model(X))
    assert not compiled._install(request, made.built, made.built)
    np.testing.assert_array_equal(compiled(X), model(X))


def test_old_weights_go_with_the_next_call() -> None:
    holder = [np.ones((64, 64), np.float32)]
    kept = weakref.ref(holder[0])
    compiled = lw.compile(lambda x: x @ holder[0])
    x = np.ones((4, 64), np.float32)
    compiled(x)
    holder[0] = np.zeros((64, 64), np.float32)
    assert not compiled(x).any()
    gc.collect()
    assert kept() is None
    holder.clear()
    with pytest.raises(IndexError):
        compiled(x)


def test_large_sums_are_said(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    weights = np.ones(1000)
    monkeypatch.setattr("loopwright.face.announce.LARGE_SUMS", 8000)
    compiled = lw.compile(lambda x: x + weights.sum())
    compiled(X)
    text = capsys.readouterr().err
    assert "each call sums 7.812 KiB of captured arrays" in text
    weights.flags.writeable = False
    compiled(X)
    assert capsys.readouterr().err == ""


# Sums of memory.

SIZES = (0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 511, 4096 + 13, 70_001)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_every_byte_counts(
    size: int, native: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: native)
    array = rng.integers(0, 256, size).astype(np.uint8)
    unchanged = memory_guard([(array, True)])
    assert unchanged()
    for place in {*range(min(size, 300)), *range(max(0, size - 300), size)}:
        for bit in (1, 128):
            array[place] ^= bit
            assert not unchanged(), place
            array[place] ^= bit
    assert unchanged()


@pytest.mark.parametrize("native", [True, False])
def test_fields_of_arrays_count(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: native)
    array, fixed = np.zeros((4, 6)), np.zeros(4)
    fixed.flags.writeable = False
    unchanged = memory_guard([(array, True), (fixed, False)])
    assert unchanged()
    array.shape = 6, 4
    assert not unchanged()


def test_exchanges_of_words_are_changes(rng: np.random.Generator) -> None:
    for scale in (1.0, 2.0, -0.0):
        array = np.eye(256) * scale + (scale == 0) * 2.0
        if scale == 0:
            array[::2] = -array[::2]
        unchanged = memory_guard([(array, True)])
        for _ in range(20):
            before = array.copy()
            array[:] = array[rng.permutation(256)]
            assert unchanged() == np.array_equal(before.view(np.int64), array.view(np.int64))
            array[:] = before
        assert unchanged()


def test_words_that_come_and_go_are_asked_in_python() -> None:
    held, long = dict.fromkeys(range(1000), 1.5), deque(range(1000))
    compiled = lw.compile(lambda x: x * held[5] + long[3])
    compiled(X)
    (made,) = compiled._known.values()
    assert isinstance(made.guard, guards.Guard)
    for changes in range(8):
        held[5] = float("1.5")  # an equal number, but another object
        assert made.guard._quick() == (changes >= 4)
        compiled(X)
    assert compiled.cache_info().misses == 1
    for change in (lambda: held.update({5: 2.0}), lambda: long.appendleft(5)):
        change()
        np.testing.assert_allclose(compiled(X), X * held[5] + long[3])
    assert compiled.cache_info().misses == 3


def test_other_threads_may_change_what_is_captured() -> None:
    held, numbers = types.SimpleNamespace(gain=2.0), {3: 1.0}
    compiled = lw.compile(lambda x: x * held.gain + numbers[3])
    stop = threading.Event()

    def disturb() -> None:
        for n in itertools.count():
            setattr(held, f"a{n % 200}", n)
            numbers[10 + n % 200] = 1.0
            if n % 7 == 0:
                vars(held).pop(f"a{n * 31 % 200}", None)
                numbers.pop(10 + n * 31 % 200, None)
            if stop.is_set():
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lw.RecompilationWarning)
            for n in range(12):
                held.gain = float(n)
                np.testing.assert_allclose(compiled(X), X * n + 1.0)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_a_variable_that_is_deleted_is_missed_by_the_next_call() -> None:
    scale = 2.0

    def delete() -> None:
        nonlocal scale
        del scale

    compiled = lw.compile(lambda x: x * scale)
    for _ in range(3):
        compiled(X)
    delete()
    with pytest.raises(NameError, match="scale"):
        compiled(X)
    scale = 5.0
    np.testing.assert_array_equal(compiled(X), X * 5.0)
