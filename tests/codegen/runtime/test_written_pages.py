"""Pages that were written to are found by whoever asks, however they were written."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.runtime import object_words, written_pages
from loopwright.codegen.runtime.memory_guard import memory_guard
from loopwright.codegen.runtime.written_pages import Array

pytestmark = pytest.mark.skipif(
    written_pages.pages() is None, reason="this system does not mark pages"
)


def watch(array: Array) -> Callable[[], bool]:
    assert written_pages.watched(array)
    return memory_guard([(array, True)], watch=written_pages.watch)


@pytest.mark.parametrize("place", [0, 1, 70_000, 99_999])
def test_a_write_anywhere_is_seen(place: int) -> None:
    array = np.zeros(100_000)
    unchanged = watch(array)
    assert unchanged() and unchanged()
    array[place] = 1.0
    assert not unchanged()
    again = watch(array)
    assert again() and not unchanged()


def test_a_write_through_a_view_and_by_the_kernel_is_seen(tmp_path: Path) -> None:
    array = np.zeros(100_000)
    for write in (lambda: array[::-1].fill(3.0), lambda: file.readinto(array.data[50_000:60_000])):
        with open(tmp_path / "numbers", "wb+", buffering=0) as file:
            file.write(bytes(100_000))
            file.seek(0)
            unchanged = watch(array)
            assert unchanged()
            write()
            assert not unchanged()


def test_two_watches_of_one_array_see_the_same_write() -> None:
    array = np.zeros(100_000)
    first, part = watch(array), watch(array[20_000:80_000])
    assert first() and part()
    array[30_000] = 1.0
    later = watch(array)  # marks the page again
    assert not first() and not part() and later()


def test_a_child_does_not_rely_on_its_parents_marks() -> None:
    array = np.zeros(100_000)
    unchanged = watch(array)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        seen = [unchanged()]
        again = watch(array)
        seen.append(again())
        array[5000] = 1.0
        seen.append(again())
        os.write(write, bytes(seen))
        os._exit(0)
    os.waitpid(child, 0)
    assert [*os.read(read, 3)] == [False, True, False]
    assert unchanged()


def test_memory_that_others_may_share_is_not_watched() -> None:
    assert not written_pages.watched(np.frombuffer(bytearray(1 << 20)))
    assert not written_pages.watched(np.zeros((1000, 1000))[:, ::2])
    assert not written_pages.watched(np.zeros(1000))


def test_memory_is_given_back() -> None:
    pages = written_pages.pages()
    assert pages is not None
    array = np.zeros(100_000)
    place = id(array)
    watch(array)
    assert place in pages._owners
    del array
    gc.collect()
    assert place not in pages._owners


def test_a_captured_table_that_is_written_is_read_anew() -> None:
    table = np.arange(200_000.0).reshape(1000, 200)
    compiled = lw.compile(lambda rows: table[rows] * 2.0)
    rows = np.array([1, 999, 5])
    for _ in range(4):
        np.testing.assert_array_equal(compiled(rows), table[rows] * 2.0)
    table[999, 3] = -1.0
    for _ in range(4):
        np.testing.assert_array_equal(compiled(rows), table[rows] * 2.0)
    table[999] = table[999]  # what it held already
    for _ in range(4):
        np.testing.assert_array_equal(compiled(rows), table[rows] * 2.0)
    assert compiled.cache_info().misses == 2


def test_the_layout_of_objects_is_known() -> None:
    assert object_words.readable()
