"""Texts and codes, as arrays of numbers."""

# pyright: basic
from __future__ import annotations

import numpy as np

from ..program import textbook


def _runs(n, rng):
    return np.repeat(rng.integers(0, 5, n), rng.integers(1, 9, n))


@textbook(60, 20_000, lambda n, rng: (rng.integers(0, 3, n), 64, 16))
def lz_matching(data, window, longest):
    tokens = []
    n = len(data)
    i = 0
    while i < n:
        best_length, best_distance = 0, 0
        for j in range(max(0, i - window), i):
            length = 0
            while length < longest and i + length < n and data[j + length] == data[i + length]:
                length += 1
            if length > best_length:
                best_length, best_distance = length, i - j
        if best_length > 2:
            tokens.append((best_distance, best_length))
            i += best_length
        else:
            tokens.append((0, data[i]))
            i += 1
    return np.array(tokens)


@textbook(20, 100_000, lambda n, rng: (_runs(n, rng),))
def run_length(data):
    values, lengths = [], []
    current, count = data[0], 1
    for x in data[1:]:
        if x == current:
            count += 1
        else:
            values.append(current)
            lengths.append(count)
            current, count = x, 1
    values.append(current)
    lengths.append(count)
    return np.array(values), np.array(lengths)


@textbook(50, 200_000, lambda n, rng: (rng.integers(0, 256, n),))
def crc32(data):
    table = np.zeros(256, dtype=np.int64)
    for i in range(256):
        c = i
        for _ in range(8):
            if c & 1:
                c = 0xEDB88320 ^ (c >> 1)
            else:
                c >>= 1
        table[i] = c
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@textbook(60, 100_000, lambda n, rng: (rng.integers(0, 2, n), np.array([0, 1, 0, 0, 1, 0, 1])))
def knuth_morris_pratt(text, pattern):
    m = len(pattern)
    failure = np.zeros(m, dtype=np.int64)
    k = 0
    for i in range(1, m):
        while k > 0 and pattern[k] != pattern[i]:
            k = failure[k - 1]
        if pattern[k] == pattern[i]:
            k += 1
        failure[i] = k
    matches = []
    k = 0
    for i in range(len(text)):
        while k > 0 and pattern[k] != text[i]:
            k = failure[k - 1]
        if pattern[k] == text[i]:
            k += 1
        if k == m:
            matches.append(i - m + 1)
            k = failure[k - 1]
    return np.array(matches)
