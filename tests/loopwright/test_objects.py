"""Methods of plain classes: arrays among the attributes are arguments, and so are numbers."""

from __future__ import annotations

import functools
import importlib
import threading
from collections import defaultdict, deque
from types import MappingProxyType, SimpleNamespace
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Layer:
    def __init__(self, size: int, activation: Any = np.tanh) -> None:
        self.w = np.ones(size, np.float32)
        self.scale = 2
        self.activation = activation
        self.lock = threading.Lock()

    def plain(self, x: Any) -> Any:
        return self.activation(x * self.w * self.scale)

    compiled = lw.compile(plain)

    @lw.compile
    def add(self, x: Any) -> Any:
        self.w += x.sum(axis=0)
        return self.w.sum()

    @lw.compile
    def replace(self, x: Any) -> Any:
        self.w = self.w + x
        return x

    @classmethod
    @lw.compile
    def of_class(cls, x: Any) -> Any:
        return x + len(cls.__name__)


class Slotted:
    __slots__ = ("bias", "inner")

    def __init__(self, inner: Any) -> None:
        self.inner, self.bias = inner, 1.5

    @lw.compile
    def __call__(self, x: Any) -> Any:
        return [layer.plain(x) + self.bias for layer in self.inner]


class Options(dict[str, Any]):
    """A dict whose keys are attributes, too."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


def test_arrays_and_numbers_of_an_object_are_arguments() -> None:
    layer = Layer(4)
    before = Layer.compiled.cache_info().misses
    for _ in range(3):
        layer.w = layer.w + 1
        np.testing.assert_allclose(layer.compiled(X), layer.plain(X), rtol=1e-6)
        layer.w[1] = -3
        layer.scale += 1
        np.testing.assert_allclose(layer.compiled(X), layer.plain(X), rtol=1e-6)
    other = Layer(4)
    other.lock = layer.lock
    np.testing.assert_allclose(other.compiled(X), other.plain(X), rtol=1e-6)
    assert Layer.compiled.cache_info().misses == before + 1
    other.activation = np.exp
    np.testing.assert_allclose(other.compiled(X), np.exp(X * 2), rtol=1e-6)
    assert Layer.compiled.cache_info().misses == before + 2
    assert Layer.of_class(X).tolist() == (X + 5).tolist()


def test_later_calls_of_a_method_read_attributes_without_a_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = Layer(4)
    for _ in range(3):
        layer.compiled(X)
    tracer = importlib.import_module("loopwright.tracer")
    monkeypatch.setattr(tracer, "quick_key", None)
    layer.w, layer.scale = layer.w * 3, 7
    np.testing.assert_allclose(layer.compiled(X), layer.plain(X), rtol=1e-6)


def test_objects_in_objects_and_slots() -> None:
    net = Slotted([Layer(4), Layer(4, np.abs)])
    for _ in range(3):
        net.inner[0].w = net.inner[0].w + 1
        for ours, layer in zip(net(X), net.inner, strict=True):
            np.testing.assert_allclose(ours, layer.plain(X) + np.float32(1.5), rtol=1e-6)


def test_an_attribute_that_is_written_in_place_is_the_objects() -> None:
    layer, w = Layer(4), np.ones(4, np.float32)
    layer.w = w
    for _ in range(3):
        layer.add(X)
    assert layer.w is w
    assert w.tolist() == (1 + 3 * X.sum(axis=0)).tolist()


def test_an_attribute_that_is_assigned_is_refused() -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        Layer(4).replace(X)
    assert caught.value.hint == "self.w[...] = value for an array, or return the new value"


def test_an_object_in_itself_is_refused() -> None:
    layer: Any = Layer(4)
    layer.parent = SimpleNamespace(child=layer)
    with pytest.raises(lw.LoopwrightTypeError, match="contains itself"):
        layer.compiled(X)


def test_results_may_be_objects() -> None:
    @lw.compile
    def f(x: Any) -> Any:
        return SimpleNamespace(double=x * 2, name="x", inner=Slotted([x]))

    for _ in range(3):
        result = f(X)
        assert result.double.tolist() == (X * 2).tolist()
        assert result.name == "x" and type(result.inner) is Slotted
        assert result.inner.inner[0].tolist() == X.tolist() and float(result.inner.bias) == 1.5


@pytest.mark.parametrize(
    "tree",
    [
        defaultdict(list, a=X, b=2),
        Options(a=X, b=2),
        SimpleNamespace(a=X, b=2),
        MappingProxyType({"a": X, "b": 2}),
        functools.partial(np.multiply, X, b=2),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_other_containers(tree: Any) -> None:
    @lw.compile
    def f(tree: Any) -> Any:
        if isinstance(tree, functools.partial):
            return tree.func(tree.args[0], tree.keywords["b"]), tree
        if isinstance(tree, SimpleNamespace):
            return tree.a * tree.b, tree
        return tree["a"] * tree["b"], tree

    for _ in range(3):
        product, given = f(tree)
        assert product.tolist() == (X * 2).tolist()
        assert type(given) is type(tree)
    assert lw.compile(lambda d: deque([d[0] * 2], 3))(deque([X]))[0].tolist() == (X * 2).tolist()
    if isinstance(tree, defaultdict):
        assert given["new"] == []
