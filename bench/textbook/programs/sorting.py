"""Sorting and searching."""

# pyright: basic
from __future__ import annotations

import numpy as np

from ..program import textbook


def sift_down(a, start, end):
    root = start
    while 2 * root + 1 <= end:
        child = 2 * root + 1
        if child + 1 <= end and a[child] < a[child + 1]:
            child += 1
        if a[root] >= a[child]:
            return
        a[root], a[child] = a[child], a[root]
        root = child


@textbook(12, 20_000, lambda n, rng: (rng.random(n),))
def heap_sort(values):
    a = values.copy()
    n = len(a)
    for start in range(n // 2 - 1, -1, -1):
        sift_down(a, start, n - 1)
    for end in range(n - 1, 0, -1):
        a[0], a[end] = a[end], a[0]
        sift_down(a, 0, end - 1)
    return a


def merge_range(a, buffer, low, high):
    if high - low < 2:
        return
    middle = (low + high) // 2
    merge_range(a, buffer, low, middle)
    merge_range(a, buffer, middle, high)
    i, j = low, middle
    for k in range(low, high):
        if i < middle and (j >= high or a[i] <= a[j]):
            buffer[k] = a[i]
            i += 1
        else:
            buffer[k] = a[j]
            j += 1
    for k in range(low, high):
        a[k] = buffer[k]


@textbook(12, 20_000, lambda n, rng: (rng.random(n),))
def merge_sort(values):
    a = values.copy()
    merge_range(a, np.empty_like(a), 0, len(a))
    return a


def quick(a, low, high):
    if low < high:
        pivot = a[high]
        i = low - 1
        for j in range(low, high):
            if a[j] <= pivot:
                i += 1
                a[i], a[j] = a[j], a[i]
        a[i + 1], a[high] = a[high], a[i + 1]
        quick(a, low, i)
        quick(a, i + 2, high)


@textbook(12, 20_000, lambda n, rng: (rng.random(n),))
def quick_sort(values):
    a = values.copy()
    quick(a, 0, len(a) - 1)
    return a


@textbook(12, 50_000, lambda n, rng: (rng.integers(0, 2**31, n),))
def radix_sort(values):
    a = values.copy()

    output = np.zeros_like(a)
    shift = 0
    while a.max() >> shift > 0:
        counts = np.zeros(257, dtype=np.int64)
        for x in a:
            counts[((x >> shift) & 255) + 1] += 1
        for d in range(256):
            counts[d + 1] += counts[d]
        for x in a:
            digit = (x >> shift) & 255
            output[counts[digit]] = x
            counts[digit] += 1
        a, output = output, a
        shift += 8
    return a


@textbook(12, 1_500, lambda n, rng: (rng.random(n),))
def insertion_sort(values):
    a = values.copy()
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@textbook(12, 50_000, lambda n, rng: (np.sort(rng.integers(0, 10 * n, n)), rng.integers(0, n, n)))
def binary_search(values, keys):
    def search(key):
        low, high = 0, len(values) - 1
        while low <= high:
            middle = (low + high) // 2
            if values[middle] == key:
                return middle
            if values[middle] < key:
                low = middle + 1
            else:
                high = middle - 1
        return -1

    return np.array([search(key) for key in keys])
