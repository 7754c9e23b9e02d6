"""Weights stand in memory once: packed, as the kernels read them."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.face.release import forget_pages
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.operator import OPERATORS
from loopwright.ir.graph.types import TensorType
from loopwright.tracer.core.captured_values import LEAST_BYTES, fingerprint

SIDE = 700  # 2 MB a matrix


def network(rng):
    scale = np.float32(SIDE**-0.5)
    weights = [scale * rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(4)]

    def layers(x):
        for w in weights:
            x = np.maximum(x @ w.T, 0)
        return x

    return weights, layers, rng.standard_normal((8, SIDE), np.float32)


def constants(compiled):
    """The constants of what was compiled last."""
    built = next(reversed(compiled._known.values())).built
    return [c.value for c in built.parts.program.constants]


def test_a_compiled_function_holds_its_packed_constants_only(rng):
    _, layers, x = network(rng)
    lw.compile(lambda x: x @ x.T)(x)  # the compiler itself is in memory
    compiled = lw.compile(layers)
    gc.collect()
    tracemalloc.start()
    try:
        compiled(x)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    packed = sum(c.nbytes for c in constants(compiled))
    assert packed >= 4 * 4 * SIDE * SIDE
    assert held <= 1.3 * packed


def test_texts_and_explanations_need_no_weights(rng):
    _, layers, x = network(rng)
    compiled = lw.compile(layers)
    result = compiled(x)
    lowered, arrays = compiled.in_use(x)
    assert "meta[" in lowered.as_text("graph")
    assert np.array_equal(lowered.built.call(arrays)[0], result)


def test_builds_of_one_function_share_their_constants(rng):
    _, layers, x = network(rng)
    compiled = lw.compile(layers, threads=1)
    compiled(x)
    first = constants(compiled)
    again = compiled.lower(x).built.parts.program.constants
    assert [id(c.value) for c in again] == [id(c) for c in first]


def test_debug_compares_code_of_weights_that_were_written_since(rng):
    weights, layers, x = network(rng)
    compiled = lw.compile(layers)
    before = compiled(x)
    weights[1][3, 5] += 1
    assert lw.debug.compare(compiled, x)
    assert not np.array_equal(compiled(x), before)
    np.testing.assert_allclose(compiled(x), layers(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [100, LEAST_BYTES])
def test_an_array_written_while_it_is_traced_is_refused(size):
    scratch = np.ones(size, np.float32)

    @lw.compile
    def twice(x):
        y = x + scratch
        scratch[...] = 2
        return y * scratch

    with pytest.raises(UnsupportedError, match="twice writes to scratch"):
        twice(np.arange(size, dtype=np.float32))


@pytest.mark.parametrize("size", [0, 1, 7, 8191, 8192, 8193, 1_100_003])
def test_a_fingerprint_sees_every_byte(size, rng):
    array = rng.integers(0, 255, size).astype(np.uint8)
    before = fingerprint(array)
    assert fingerprint(array.copy()) == before
    for place in {0, size // 2, size - 1} - {-1}:
        if size:
            array[place] ^= 1
            assert fingerprint(array) != before
            array[place] ^= 1
    assert fingerprint(array) == before


def mapped_rows(values):
    """The product of rows with a matrix that is an array of a file."""
    x = TensorType((4, values.shape[0]), FLOAT32)
    builder = Builder()
    row = builder.param("x", x)
    result = builder.emit(OPERATORS["nn.matmul"], (row, Constant(values, "w")))
    return Module({"main": builder.function(result)})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the pages in memory")
def test_pages_of_mapped_weights_go_back_once_they_are_packed(rng, tmp_path):
    weights = rng.standard_normal((2048, 2048), np.float32)
    np.save(tmp_path / "w.npy", weights)
    mapped = np.load(tmp_path / "w.npy", mmap_mode="r")
    compiled = lw.CompiledModule(mapped_rows(mapped))
    x = rng.standard_normal((4, 2048), np.float32)
    float(mapped.sum())
    before = file_pages()
    result = compiled(x)
    assert file_pages() <= before - weights.nbytes // 2
    np.testing.assert_allclose(result, x @ weights, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(mapped, weights)


def test_what_was_written_to_a_private_mapping_stays(rng, tmp_path):
    np.save(tmp_path / "w.npy", np.zeros((64, 64), np.float32))
    private = np.load(tmp_path / "w.npy", mmap_mode="c")
    private[:] = 1
    forget_pages(mapped_rows(private))
    assert private.min() == 1


def file_pages() -> int:
    """Bytes of files that are in this process's memory."""
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "RssFile" in line
    ]
    return int(line.split()[1]) << 10
