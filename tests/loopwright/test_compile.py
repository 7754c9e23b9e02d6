"""``@lw.compile``: calling, specialising, structures, statics, other libraries' arrays."""

from __future__ import annotations

import array
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import loopwright as lw
import numpy as np
import pytest
from loopwright.driver import pipeline
from loopwright.driver.built import Built

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Params:
    w: Any
    b: Any

    def __post_init__(self) -> None:
        assert not isinstance(self.w, list)


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class DLPackOnly:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modules that are built during the test."""
    modules: list[Any] = []
    real = pipeline.build

    def build(module: Any, **options: Any) -> Any:
        modules.append(module)
        return real(module, **options)

    monkeypatch.setattr(pipeline, "build", build)
    return modules


def test_one_array(builds: list[Any]) -> None:
    f = lw.compile(lambda x: x * 2)
    for _ in range(3):
        assert f(X).tolist() == (X * 2).tolist()
    assert len(builds) == 1


def test_results_are_new_arrays() -> None:
    f = lw.compile(lambda x: x)
    x = X.copy()
    y = f(x)
    y[0, 0] = 99
    assert x[0, 0] == 0
    constant = np.ones(2)
    g = lw.compile(lambda x: constant)
    g(X)[0] = 99
    assert g(X).tolist() == [1, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(),
        lambda x: x[0, 1],
        lambda x: x.max() > 1,
        lambda x: np.where(x[0, 0] > 1, 1, 2),
        lambda x: x[..., 0, 1],
        lambda x: np.allclose(x, x),
        lambda x: np.median(x),
        lambda x: np.copy(x[0, 0]),
        lambda x: (x.mean(), {"size": x.size, "total": np.tensordot(x, x)}),
    ],
)
def test_numbers_are_what_they_are_in_numpy(function: Any) -> None:
    """NumPy's scalars, arrays without axes, Python's bools."""

    def types(result: Any) -> Any:
        parts = result.values() if isinstance(result, dict) else result
        inner = isinstance(result, tuple | dict)
        return [types(part) for part in parts] if inner else type(result)

    assert types(lw.compile(function)(X)) == types(function(X))


@pytest.mark.parametrize("number", [3, True, 2.5, 1j, np.float32(2), np.array(3.0)])
def test_numbers_of_numbers(number: Any) -> None:
    f = lw.compile(lambda n: (n + 1, n == 1, np.sqrt(n), n * 1.5))
    assert [*map(type, f(number))] == [*map(type, f.function(number))]


def test_shapes_and_dtypes_specialise(builds: list[Any]) -> None:
    f = lw.compile(lambda x: x + 1)
    for x in (X, X[:1], X.astype(np.float64), X, X[:1]):
        assert f(x).dtype == x.dtype
    assert len(builds) == 3
    info = f.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 3, 3)
    assert info.signatures == ("x: float32[2, 3]", "x: float32[1, 3]", "x: float64[2, 3]")
    assert info.reasons == (
        "first call",
        "x: float32[2, 3] became float32[1, 3]",
        "x: float32[1, 3] became float64[2, 3]",
    )
    assert str(info).splitlines()[0] == "3 compiled, 2 hits, 3 misses"


def test_cache_clear(builds: list[Any]) -> None:
    f = lw.compile(lambda x: x + 1)
    f(X)
    f.cache_clear()
    assert f.cache_info().currsize == 0
    f(X)
    assert len(builds) == 2


def test_direct_code_is_tried_first_and_only_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One array passed as a list's item and one passed by itself are different calls."""
    real = pipeline.build

    def build(module: Any, **options: Any) -> Built:
        call = real(module, **options).call
        kinds = [(p.type.shape, p.type.dtype.numpy) for p in module.main.params]

        def direct(*args: Any) -> Any:
            fits = len(args) == len(kinds) and all(
                type(a) is np.ndarray and (a.shape, a.dtype) == k for a, k in zip(args, kinds)
            )
            return call(args) if fits else None

        return Built(call, direct)

    monkeypatch.setattr(pipeline, "build", build)

    @lw.compile
    def f(flag: Any, pair: Any) -> Any:
        return pair[0] + pair[1] if flag is True else flag - pair

    for _ in range(3):
        assert f(True, [X, X]).tolist() == (X + X).tolist()
        assert f(X, X).tolist() == (X - X).tolist()
    g = lw.compile(lambda x: x * np.float32(2))
    assert g(2.0).dtype == np.float32
    assert g(np.float64(2.0)).dtype == np.float64
    assert g(2.0).dtype == np.float32
    assert g(np.array(2.0)).dtype == np.float64


@pytest.mark.parametrize(
    "arrays",
    [
        (X, X),
        [X, (X, X)],
        {"a": X, "b": [X]},
        OrderedDict(a=X),
        Point(X, Point(X, None)),
        Params(X, {"k": X}),
        {},
        [None, X],
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_structures(arrays: Any) -> None:
    from loopwright.tracer.core.pytree import flatten, unflatten

    leaves, structure = flatten(arrays)

    def double(tree: Any) -> Any:
        inner, _ = flatten(tree)
        return unflatten(structure, [leaf * 2 for leaf in inner])

    f = lw.compile(double)
    for _ in range(2):
        result = f(arrays)
        assert type(result) is type(arrays)
        got, got_structure = flatten(result)
        assert got_structure == structure
        assert [g.tolist() for g in got] == [(leaf * 2).tolist() for leaf in leaves]


def test_a_function_that_depends_on_the_order_of_a_dict() -> None:
    f = lw.compile(lambda d: next(iter(d.values())) * 1)
    assert f({"a": X, "b": -X}).tolist() == X.tolist()
    assert f({"b": -X, "a": X}).tolist() == (-X).tolist()


def test_registered_types() -> None:
    lw.register_pytree(Plain, lambda p: ((p.value,), None), lambda rest, inside: Plain(*inside))
    result = lw.compile(lambda p: Plain(p.value + 1))(Plain(X))
    assert isinstance(result, Plain)
    assert result.value.tolist() == (X + 1).tolist()


def test_leaves_that_are_no_arrays_come_back() -> None:
    f = lw.compile(lambda x, name: {"name": name, "twice": x * 2, "n": x.shape[0], "none": None})
    result = f(X, "net")
    assert (result["name"], result["n"], result["none"]) == ("net", 2, None)


def test_keywords_defaults_and_varargs(builds: list[Any]) -> None:
    @lw.compile
    def f(x: Any, y: Any = 3, *rest: Any, scale: Any = 1.0, **more: Any) -> Any:
        total = x * y * scale
        for other in (*rest, *more.values()):
            total = total + other
        return total

    assert f(X).tolist() == (X * 3).tolist()
    assert f(X, 2).tolist() == f(x=X, y=2).tolist() == (X * 2).tolist()
    assert f(X, 2, X, X).tolist() == (X * 4).tolist()
    assert f(X, scale=2.0, extra=X).tolist() == (X * 7).tolist()
    assert f(X, extra=X, scale=2.0).tolist() == (X * 7).tolist()
    count = len(builds)
    f(X, extra=X, scale=3.0), f(X, scale=3.0, extra=X)
    assert len(builds) == count


def test_static_argnames(builds: list[Any]) -> None:
    @lw.compile(static_argnames=("axis", "n"))
    def f(x: Any, axis: int, n: int = 1) -> Any:
        for _ in range(n):
            x = x + 1
        return x.sum(axis)

    assert f(X, 0).tolist() == (X + 1).sum(0).tolist()
    assert f(X, axis=1, n=2).tolist() == (X + 2).sum(1).tolist()
    assert f(X, 1, 2).tolist() == (X + 2).sum(1).tolist()
    assert f(X, 1, n=2).tolist() == (X + 2).sum(1).tolist()
    assert len(builds) == 2


def test_bools_strings_and_functions_are_static(builds: list[Any]) -> None:
    @lw.compile
    def f(x: Any, training: bool, mode: str, activation: Any) -> Any:
        y = activation(x) if mode == "on" else x
        return y * 2 if training else y

    assert f(X, True, "on", np.negative).tolist() == (-2 * X).tolist()
    assert f(X, False, "off", np.negative).tolist() == X.tolist()
    assert f(X, False, "off", np.negative).tolist() == X.tolist()
    assert len(builds) == 2


def test_python_numbers_are_traced(builds: list[Any]) -> None:
    f = lw.compile(lambda x, s: x * s)
    for s in (2.0, 3.5, -1.0):
        result = f(X, s)
        assert result.dtype == np.float32
        assert result.tolist() == (X * s).tolist()
    assert len(builds) == 1
    assert f(X, 3).tolist() == (X * 3).tolist()
    assert len(builds) == 2


def test_arrays_that_are_not_dense() -> None:
    f = lw.compile(lambda x: x + 1)
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (base.T, base[::2, ::3], base[:, ::-1], np.broadcast_to(base[0], (3, 6))):
        for _ in range(3):
            assert f(view).tolist() == (view + 1).tolist()
    swapped = base.astype(">f4")
    assert f(swapped).tolist() == (base + 1).tolist()
    assert f(swapped).dtype.isnative


def test_unaligned_arrays() -> None:
    raw = np.zeros(4 * 3 + 1, np.uint8)
    view = raw[1:].view(np.float32)
    assert not view.flags.aligned
    assert lw.compile(lambda x: x + 1)(view).tolist() == [1, 1, 1]


def test_objects_of_other_libraries() -> None:
    f = lw.compile(lambda x: x + 1)
    assert f(DLPackOnly(X)).tolist() == (X + 1).tolist()
    assert f(array.array("d", [1, 2])).tolist() == [2, 3]
    assert f(memoryview(X)).tolist() == (X + 1).tolist()
    assert f(np.float32(2)) == 3
    assert f([1.0, 2.0][0]) == 2


def test_empty_arrays() -> None:
    f = lw.compile(lambda x: (x * 2, x.sum(0)))
    doubled, total = f(np.zeros((0, 3)))
    assert doubled.shape == (0, 3)
    assert total.tolist() == [0, 0, 0]


def test_methods() -> None:
    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w

        @lw.compile(static_argnames="self")
        def predict(self, x: Any) -> Any:
            return x @ self.w

    ones, twos = Model(np.ones((3, 1), np.float32)), Model(np.full((3, 1), 2, np.float32))
    assert ones.predict(X).tolist() == (X @ ones.w).tolist()
    assert twos.predict(X).tolist() == (X @ twos.w).tolist()


def test_methods_of_dataclasses_are_traced() -> None:
    @dataclass
    class Model:
        w: Any

        @lw.compile
        def predict(self, x: Any) -> Any:
            return x @ self.w

    for value in (1, 2):
        model = Model(np.full((3, 1), value, np.float32))
        assert model.predict(X).tolist() == (X @ model.w).tolist()


def test_lower_and_compile() -> None:
    f = lw.compile(lambda x, s: np.exp(x) * s)
    lowered = f.lower(lw.f32[2, 3], 2.0)
    assert "exp(%x)" in lowered.as_text("graph")
    assert str(lowered) == lowered.as_text("graph")
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(X, 2.0), np.exp(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(compiled(X, s=3.0), np.exp(X) * 3, rtol=1e-6)
    with pytest.raises(lw.LoopwrightValueError, match="there is no level 'loop'; the levels are"):
        lowered.as_text("loop")


def test_wrapper_keeps_name_and_documentation() -> None:
    @lw.compile
    def named(x: Any) -> Any:
        """What it does."""
        return x

    assert (named.__name__, named.__doc__) == ("named", "What it does.")
    assert repr(named) == "<compiled named, 0 specialisations>"


def test_options_are_checked() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="threads must be at least 1, not 0"):
        lw.compile(threads=0)(lambda x: x)
    with pytest.raises(lw.LoopwrightValueError, match="threads must be at most 256, not 257"):
        lw.compile(lambda x: x)(X, threads=257)
    with pytest.raises(lw.LoopwrightTypeError, match="threads is a number of threads, not '2'"):
        lw.compile(lambda x: x)(X, threads="2")
    with pytest.raises(lw.LoopwrightValueError, match="has no parameter 'axes'"):
        lw.compile(static_argnames="axes")(lambda x, axis: x)
    with pytest.raises(lw.LoopwrightTypeError, match=r"lw\.compile takes a function, not 3"):
        lw.compile(3)  # type: ignore[call-overload]


def test_a_call_may_have_its_own_number_of_threads() -> None:
    f = lw.compile(lambda x: x + 1, threads=2)
    assert f.with_threads(2) is f
    assert f.with_threads(1) is f.with_threads(1)
    assert f.with_threads(1).threads == 1
    for result in (f(X, threads=1), f(x=X, threads=1), f(X, threads=None)):
        np.testing.assert_array_equal(result, X + 1)
    assert f.with_threads(1).cache_info().currsize == 1
    assert f.cache_info().currsize == 1
    f.cache_clear()
    assert f.with_threads(1).cache_info().currsize == 0


def test_a_parameter_of_the_name_is_the_functions() -> None:
    f = lw.compile(lambda x, threads: x * threads)
    np.testing.assert_array_equal(f(X, threads=3), X * 3)
    g = lw.compile(lambda x, **rest: x * rest["threads"])
    np.testing.assert_array_equal(g(X, threads=3), X * 3)
    np.testing.assert_array_equal(g.with_threads(1)(X, threads=3), X * 3)


def test_threads_share_one_compilation(builds: list[Any]) -> None:
    f = lw.compile(lambda x: np.tanh(x) + 1)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(f(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(builds) == 1


def test_functions_traced_in_two_threads_do_not_mix() -> None:
    barrier = threading.Barrier(2)

    def slow(x: Any) -> Any:
        y = x + 1
        barrier.wait(5)
        return y * 2

    f, g = lw.compile(slow), lw.compile(slow)
    results: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda n=n, h=h: results.update({n: h(X)}))
        for n, h in (("f", f), ("g", g))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results["f"].tolist() == results["g"].tolist() == ((X + 1) * 2).tolist()
