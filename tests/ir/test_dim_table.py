"""A table of statements about sizes, all of which are proved: one parametrized test a chapter.

``x y z`` are any integers, ``n m k`` sizes from 0, ``p q r`` sizes from 1 on; ``i`` and ``j`` have
the ranges that follow the statement.
"""

from __future__ import annotations

import random
import re

import pytest
from loopwright.ir.dim_proofs import prove
from loopwright.ir.dims import IntExpr, ceildiv, evaluate, int_max, int_min, size, symbol

NAMES: dict[str, object] = {
    **{name: symbol(name) for name in "xyzij"},
    **{name: size(name) for name in "nmk"},
    **{name: size(name, 1) for name in "pqr"},
    "min": int_min,
    "max": int_max,
    "ceildiv": ceildiv,
}

CHAPTERS = {
    "polynomials": """
        x + y == y + x
        x * (y + z) == x * y + x * z
        (x + y) * (x - y) == x * x - y * y
        (x + 1) * (x + 1) == x * x + 2 * x + 1
        2 * (x + y) - 2 * y == 2 * x
        (x - y) * -1 == y - x
        x * y * z == z * y * x
        3 * x - x - x - x == 0
        (x + y + z) * (x + y + z) - 2 * (x * y + y * z + x * z) == x * x + y * y + z * z
        x != x + 1
        2 * x != 2 * y + 1
        6 * x + 3 != 9 * y + 1
        x < x + 1
        x - 1 <= x
        2 * x + 1 > 2 * x
        x * x >= 0
        x * x >= x
        x * x + 1 > 0
        x * x + y * y >= 2 * x * y
        x * x - 2 * x + 1 >= 0
        (x - y) * (x - y) >= 0
        n >= 0
        n + 1 > 0
        n + 1 != 0
        n * m >= 0
        p * q >= 1
        p * q >= p
        n * p >= n
        n * p * q >= n
        n * m * p >= n * m
        p + q > p
        p + q >= 2
        2 * n >= n
        n * n >= n
        n * n * n >= n * n
        (n + 1) * (m + 1) > n * m
        (n + 1) * (m + 1) >= n + m + 1
        (p - 1) * (q - 1) >= 0
        p * q - p - q + 1 >= 0
        -n <= 0
        n - m <= n
        4 * p - 3 >= 1
        p * 64 - 64 >= 0
        n * m + n >= n
    """,
    "division by constants": """
        (4 * x + 3) // 4 == x
        (4 * x + 7) // 4 == x + 1
        (4 * x - 1) // 4 == x - 1
        (4 * x) // 2 == 2 * x
        (6 * x + 4) // 2 == 3 * x + 2
        (8 * x + 8) // 8 == x + 1
        x // 1 == x
        x // -1 == -x
        (-4 * x) // 4 == -x
        (x + 8) // 8 == x // 8 + 1
        (x - 8) // 8 == x // 8 - 1
        (9 * x) // 8 == x + x // 8
        (x + 8 * y) // 8 == x // 8 + y
        (2 * x) // 4 == x // 2
        (2 * x + 1) // 4 == x // 2
        (2 * x + 1) // 2 == x
        (6 * x + 3) // 9 == (2 * x + 1) // 3
        (12 * x + 6) // 8 == (6 * x + 3) // 4
        (4 * x + 2) // 8 == x // 2
        (4 * x + 4) // 8 == (x + 1) // 2
        x // -4 == (-x) // 4
        (-x) // -4 == x // 4
        -((-x) // 4) == (x + 3) // 4
        -(x // 4) == (-x + 3) // 4
        (-x - 1) // 4 == -(x // 4) - 1
        (x // 4) // 8 == x // 32
        (x // 8) // 4 == (x // 4) // 8
        ((x // 2) // 3) // 5 == x // 30
        (x // 4 + 3) // 8 == (x + 12) // 32
        (x // 4 + 8) // 8 == x // 32 + 1
        (2 * (x // 8)) // 4 == x // 16
        (4 * (x // 4)) // 4 == x // 4
        (4 * (x // 4)) // 8 == x // 8
        (4 * (x // 4) + 3) // 8 == x // 8
        (x + 3) // 4 == (x - 1) // 4 + 1
        (x + 15) // 16 == (x - 1) // 16 + 1
        (x + 7) // 8 - x // 8 <= 1
        (x + 7) // 8 >= x // 8
        (x + 1) // 2 + x // 2 == x
        x - x // 2 == (x + 1) // 2
        x // 3 + (x + 1) // 3 + (x + 2) // 3 == x
        x // 2 + (x + 2) // 4 + x // 4 >= x - 1
        x // 4 * 4 <= x
        x // 4 * 4 + 4 > x
        x // 4 * 4 >= x - 3
        (x + 3) // 4 * 4 >= x
        (x + 15) // 16 * 16 >= x
        (x + 15) // 16 * 16 < x + 16
        (x + 15) // 16 * 16 - x <= 15
        n // 2 <= n
        n // 4 <= n // 2
        n // 4 >= 0
        p // 2 < p
        p // 8 <= p - 1
        (n + 1) // 2 <= n
        n // 3 * 2 <= n
        (n + 7) // 8 <= n
        (p + 7) // 8 >= 1
        (p + 15) // 16 * 16 >= 16
        (n * 3) // 4 <= n
        n - n // 4 >= 0
        2 * (n // 2) <= n
        n // 2 + n // 2 <= n
        n // 16 <= n // 8
        x // 8 <= (x + 1) // 8
        x // 8 < x // 8 + 1
        (x + 64) // 64 > x // 64
        (x * x + x) // 2 * 2 == x * (x + 1)
        (x * (x + 1)) // 2 + x + 1 == ((x + 1) * (x + 2)) // 2
        (x * x) // x == x
        (4 * x * y + 2) // 4 == x * y
        (x * 6) // 3 == 2 * x
        (5 * x + 4) // 5 == x
        (5 * x - 5) // 5 == x - 1
        (128 * n) // 64 == 2 * n
        (n + 127) // 128 * 128 >= n
        (n + 4095) // 4096 <= n
    """,
    "remainders": """
        (x // 4) * 4 + x % 4 == x
        x - x % 8 == x // 8 * 8
        (6 * x) % 3 == 0
        (8 * x + 3) % 8 == 3
        (4 * x + y) % 4 == y % 4
        (x + 8) % 8 == x % 8
        (x - 8) % 8 == x % 8
        (9 * x) % 8 == x % 8
        (x % 8) % 8 == x % 8
        (x % 8) % 4 == x % 4
        (x % 32) // 8 == (x // 8) % 4
        (x // 8) % 4 == (x // 8) - 4 * (x // 32)
        (x % 8) // 8 == 0
        (x % 4) // 4 == 0
        (x + x % 2) % 2 == 0
        (x - x % 8) % 8 == 0
        (x - x % 8) // 8 == x // 8
        (x + (-x) % 8) % 8 == 0
        x + (-x) % 8 == (x + 7) // 8 * 8
        (x + (8 - x % 8) % 8) % 8 == 0
        (8 - x % 8) % 8 == (-x) % 8
        x % 1 == 0
        (2 * x) % 4 == 2 * (x % 2)
        (2 * x + 1) % 4 == 2 * (x % 2) + 1
        (4 * x + 2) % 8 == 4 * (x % 2) + 2
        (3 * x) % 6 == 3 * (x % 2)
        x % 8 >= 0
        x % 8 < 8
        x % 8 <= 7
        x % 8 != 8
        x % -8 <= 0
        x % -8 > -8
        n % 8 <= n
        n % 2 + n // 2 <= n
        x % 2 + (x + 1) % 2 == 1
        x % 3 + (x + 1) % 3 + (x + 2) % 3 == 3
        (x * x) % 4 <= 1
        (x * x + x) % 2 == 0
        (x * (x + 1) * (x + 2)) % 3 == 0
        (x * x) % 2 == x % 2
        (x % 4 + y % 4) % 4 == (x + y) % 4
        ((x % 8) * (y % 8)) % 2 == (x * y) % 2
        x % 4 + 4 * ((x // 4) % 8) == x % 32
        x % 4 + 4 * ((x // 4) % 8) + 32 * (x // 32) == x
        2 * x + 1 != 4 * y
        (2 * x + 1) % 2 != 0
        (x + 16) % 4 == x % 4
        (x % 16) // 4 < 4
        (x % 16) // 4 >= 0
        n - n % 4 >= 0
        (n // 4 * 4) % 4 == 0
        (n // 8 * 8) % 4 == 0
        (4 * n) % 4 == 0
        ((n + 3) // 4 * 4) % 4 == 0
        (x % 6) % 3 == x % 3
        (x % 6 - x % 3) % 3 == 0
    """,
    "symbolic divisors": """
        (n * p) // p == n
        (p * q) // q == p
        (x * y) // y == x
        (2 * x * y) // y == 2 * x
        (6 * x * y) // (2 * y) == 3 * x
        (x * y * z) // (y * z) == x
        (x * y + y) // y == x + 1
        (x * y + z) // y == x + z // y
        (n * p + p - 1) // p == n
        (p + q - 1) // q * q >= p
        (p * q + q - 1) // q == p
        x // x == 1
        0 // p == 0
        p // (2 * p) == 0
        (3 * p) // (2 * p) == 1
        (p * x) // (p * q) == x // q
        (2 * x) // (2 * p) == x // p
        n // p <= n
        n // p >= 0
        n // p * p <= n
        n // p * p + n % p == n
        n % p < p
        n % p >= 0
        n % p <= n
        x % p < p
        x % p >= 0
        x % m < m
        x % p <= p - 1
        (-p) % p == 0
        (x * p) % p == 0
        (x * p + y) % p == y % p
        (x + p) % p == x % p
        (x % p) % p == x % p
        (x - x % p) % p == 0
        (x - x % p) // p == x // p
        (x // p * p) // p == x // p
        (x // p) // q == x // (p * q)
        (x // p) // q == (x // q) // p
        (x // p) // 4 == x // (4 * p)
        (x + p) // p == x // p + 1
        (x + p - 1) // p == (x - 1) // p + 1
        (x + p - 1) // p * p >= x
        (x + p - 1) // p * p < x + p
        (x + (-x) % p) % p == 0
        x + (-x) % p == (x + p - 1) // p * p
        (n * m) // p <= n * m
        (n + 1) * (m + 1) // (m + 1) == n + 1
        (n * n - 1) // (n + 1) == n - 1
        (x * x - y * y) // (x - y) == x + y
        (x * x + 2 * x + 1) // (x + 1) == x + 1
        n // (n + 1) == 0
        (n + 1) // (n + 2) == 0
        (2 * n + 1) // (n + 1) == 1 + n // (n + 1)
        -((-x) // p) == (x + p - 1) // p
        (x % (4 * p)) % p == x % p
        (x % (4 * p)) // p == (x // p) % 4
        x // p <= (x + 1) // p
        (p - 1) // p == 0
        (p + q - 1) // p >= 1
        (n + p) // p > 0
        (p * n) % (p * q) == p * (n % q)
        n // p - n // p == 0
    """,
    "ceilings": """
        ceildiv(4 * x, 4) == x
        ceildiv(4 * x + 1, 4) == x + 1
        ceildiv(x, 4) == -((-x) // 4)
        ceildiv(x, 4) == (x + 3) // 4
        ceildiv(x, 4) >= x // 4
        ceildiv(x, 4) <= x // 4 + 1
        ceildiv(x, 4) * 4 >= x
        ceildiv(x, 4) * 4 - x == (-x) % 4
        ceildiv(ceildiv(x, 4), 8) == ceildiv(x, 32)
        ceildiv(x // 1, 8) == (x + 7) // 8
        ceildiv(x + 8, 8) == ceildiv(x, 8) + 1
        ceildiv(2 * x, 2) == x
        ceildiv(2 * x, 4) == ceildiv(x, 2)
        ceildiv(n, 8) <= n
        ceildiv(n, 8) * 8 >= n
        ceildiv(p, 8) >= 1
        ceildiv(n, p) * p >= n
        ceildiv(n, p) * p - n < p
        ceildiv(n, p) <= n
        ceildiv(n * p, p) == n
        ceildiv(n, 16) * 16 == (n + 15) // 16 * 16
        ceildiv(x, 16) * 4 >= ceildiv(x, 4)
        ceildiv(x, 3) + x // 3 * 2 <= x + 1
        ceildiv(x, 2) + x // 2 == x
        ceildiv(x - 1, 8) <= ceildiv(x, 8)
        ceildiv(8 * ceildiv(x, 8), 8) == ceildiv(x, 8)
        (ceildiv(x, 8) - 1) * 8 < x
        8 * ceildiv(x, 8) // 8 == ceildiv(x, 8)
        ceildiv(x, 8) == x // 8 + min(x % 8, 1)
        ceildiv(n, 32) <= ceildiv(n, 16)
    """,
    "least and greatest": """
        min(x, x + 1) == x
        max(x, x + 1) == x + 1
        min(x, x) == x
        min(x, y) == min(y, x)
        min(min(x, y), z) == min(x, min(y, z))
        max(max(x, y), z) == max(z, max(y, x))
        min(x, y) <= x
        min(x, y) <= y
        max(x, y) >= x
        max(x, y) >= min(x, y)
        min(x, y) + max(x, y) == x + y
        max(x, y) - min(x, y) >= 0
        min(x, y) * max(x, y) == x * y
        max(min(x, y), x) == x
        min(max(x, y), x) == x
        min(x, max(y, z)) == max(min(x, y), min(x, z))
        max(x, min(y, z)) == min(max(x, y), max(x, z))
        min(x + z, y + z) == min(x, y) + z
        max(x - z, y - z) == max(x, y) - z
        min(2 * x, 2 * y) == 2 * min(x, y)
        max(4 * x, 4 * y) == 4 * max(x, y)
        min(-x, -y) == -max(x, y)
        max(-x, -y) == -min(x, y)
        min(n * x, n * y) == n * min(x, y)
        max(n * x, n * y) == n * max(x, y)
        max(x, 1) >= 1
        min(x, 7) <= 7
        max(min(x, 7), 0) >= 0
        max(min(x, 7), 0) <= 7
        min(max(x, 0), 7) == max(min(x, 7), 0)
        max(n, 0) == n
        min(n, 0) == 0
        max(p, 1) == p
        min(n, -1) == -1
        max(n, n // 2) == n
        min(n // 4, n // 2) == n // 4
        min(n % 8, 7) == n % 8
        max(x % 8, 0) == x % 8
        min(n, n * 2) == n
        max(n * p, n) == n * p
        min(n, n * p) == n
        max(n, n % p) == n
        x - min(x, y) == max(x - y, 0)
        x - max(x - y, 0) == min(x, y)
        min(x, y) + max(x - y, 0) == x
        max(x - y, 0) - max(y - x, 0) == x - y
        max(x - 5, 0) + min(x, 5) == x
        min(x, 8) + max(x - 8, 0) == x
        max(x, y) == x + max(y - x, 0)
        min(n, m) <= n + m
        max(n, m) <= n + m
        min(n, m) >= 0
        min(p, q) >= 1
        max(n, p) >= 1
        2 * min(x, y) <= x + y
        2 * max(x, y) >= x + y
        (x + y) // 2 <= max(x, y)
        (x + y) // 2 >= min(x, y)
        min(x, y, ) == min(x, y)
        min(x // 4, y // 4) == min(x, y) // 4
        max(x // 4, y // 4) == max(x, y) // 4
        max(x + 3, y + 3) // 4 * 4 >= x
        min(x, y) * min(x, y) + max(x, y) * max(x, y) == x * x + y * y
        min(min(x, 3), 5) == min(x, 3)
        max(max(x, 3), 5) == max(x, 5)
        min(max(x, 3), 3) == 3
        max(x, -x) >= 0
        max(x, -x) >= x
        max(n, -n) == n
        min(x, y) < max(x, y) + 1
        min(n, 16) % 17 == min(n, 16)
        min(n, 16) // 17 == 0
        min(x + 1, y + 1) > min(x, y)
    """,
    "tiles": """
        8 * (n // 8) + n % 8 == n
        8 * (n // 8) + i < n                                    for i in n % 8
        8 * i + j < n                                           for i in n // 8; j in 8
        8 * i + 7 < n                                           for i in n // 8
        (8 * i + j) // 8 == i                                   for i in n; j in 8
        (8 * i + j) % 8 == j                                    for i in n; j in 8
        (8 * i + j) // 4 == 2 * i + j // 4                      for i in n; j in 8
        (8 * i + j) // 16 == i // 2                             for i in n; j in 8
        (8 * i + j) % 16 == 8 * (i % 2) + j                     for i in n; j in 8
        (i * m + j) // m == i                                   for i in n; j in m
        (i * m + j) % m == j                                    for i in n; j in m
        i * m + j < n * m                                       for i in n; j in m
        i * m + j >= 0                                          for i in n; j in m
        (i * m + j) // (m * p) == i // p                        for i in n; j in m
        min(8, n - 8 * i) == 8                                  for i in n // 8
        min(8 * i + 8, n) - 8 * i <= 8                          for i in ceildiv(n, 8)
        min(8 * i + 8, n) - 8 * i >= 1                          for i in ceildiv(n, 8)
        8 * i < n                                               for i in ceildiv(n, 8)
        p * i < n                                               for i in ceildiv(n, p)
        p * i + j < n                                           for i in n // p; j in p
        i + 1 <= n                                              for i in n
        n - i > 0                                               for i in n
        n - 1 - i >= 0                                          for i in n
        n - 1 - i < n                                           for i in n
        i // 8 < ceildiv(n, 8)                                  for i in n
        i // 8 <= n // 8                                        for i in n
        i // p <= n // p                                        for i in n
        i % 8 < 8                                               for i in n
        i + j < n + m                                           for i in n; j in m
        2 * i + 1 < 2 * n                                       for i in n
        (2 * i + j) // 2 == i                                   for i in n; j in 2
        i // n == 0                                             for i in n
        i % n == i                                              for i in n
        min(i, n - 1) == i                                      for i in n
        max(i, 0) == i                                          for i in n
        i + n * j < n * p                                       for i in n; j in p
        8 * (n // 8) + 4 * ((n % 8) // 4) + n % 4 == n
        8 * (n // 8) + 4 * (n // 4 % 2) + 2 * (n // 2 % 2) + n % 2 == n
        n // 8 * 8 + 4 * i + 3 < n                              for i in n % 8 // 4
        n % 8 // 4 <= 1
        n // 64 * 4 + n % 64 // 16 == n // 16
        16 * (n // 16) <= 8 * (n // 8)
        n // 8 * 8 <= (n + 7) // 8 * 8
        j < n                                                   for i in n; j in i + 1
        i - j >= 0                                              for i in n; j in i + 1
        i * (i + 1) // 2 + j < n * (n + 1) // 2                 for i in n; j in i + 1
    """,
    "shapes": """
        (n + 2 - 3) // 1 + 1 == n
        (2 * p - 2) // 2 + 1 == p
        (p + 2 * 1 - 3) // 1 + 1 == p
        (2 * n + 2 * 3 - 7) // 2 + 1 == n
        (2 * n + 2 * 1 - 3) // 2 + 1 == n
        (n + 2 * 1 - 3) // 2 + 1 == (n + 1) // 2
        (4 * n - 4) // 4 + 1 == n
        (n - 1) // 2 + 1 == ceildiv(n, 2)
        (n - 2) // 2 + 1 == n // 2
        (n - 3 + 1) + 2 == n
        ((n + 1) // 2 + 1) // 2 == (n + 3) // 4
        (((n + 1) // 2 + 1) // 2 + 1) // 2 == ceildiv(n, 8)
        (n - 1) * 2 + 1 == 2 * n - 1
        (n - 1) * 2 - 2 * 1 + 3 + 1 == 2 * n
        2 * (n // 2) + n % 2 == n
        max(n - 0, 0) == n
        max(min(n, n) - 0, 0) == n
        n - min(n, 3) == max(n - 3, 0)
        min(3, n) + max(n - 3, 0) == n
        max(n + 1 - 1, 0) == n
        ceildiv(n - 0, 1) == n
        ceildiv(n, 2) + n // 2 == n
        max(ceildiv(n - 1, 2), 0) == n // 2
        max(ceildiv(n - 3, 2), 0) <= n
        n * 12 * 64 == 768 * n
        (n * 768) // 12 == 64 * n
        (n * 768) // 64 == n * 12
        (n * m * 768) // (n * m) == 768
        (n * m * 4) // (m * 2) == 2 * n
        (n * 6) // 2 // 3 == n
        n * m * 4 % 4 == 0
        n + m - n == m
        n + (m - n) == m
        (n + m) - m == n
        n * 4 + m * 4 == 4 * (n + m)
        n * 4 <= (n + m) * 4
        (n * 4 + 63) // 64 * 64 >= n * 4
        (n * 4 + 63) // 64 * 64 % 64 == 0
        max(n, m) * 4 >= n * 4
        (n + m + 63) // 64 * 64 >= n
        (n + 63) // 64 * 64 + (m + 63) // 64 * 64 >= n + m
        p * 4 > 0
        n * n - n * (n - 1) == n
        n * (n - 1) // 2 + n == n * (n + 1) // 2
        (n + 1 - 1) // 1 == n
        min(max(n - 2, 0), n) == max(n - 2, 0)
        max(min(n + 5, n) - n, 0) == 0
        (n // 2) * 2 + (n - (n // 2) * 2) == n
        p - 1 >= 0
        p - 1 < p
    """,
}


def _statements() -> list[str]:
    return [line for text in CHAPTERS.values() for line in text.strip().splitlines()]


def _read(line: str) -> tuple[IntExpr, str, IntExpr, dict[str, tuple[IntExpr, IntExpr]]]:
    statement, _, loops = line.partition(" for ")
    left, relation, right = re.split(r"(==|!=|<=|>=|<|>)", statement)
    ranges: dict[str, tuple[IntExpr, IntExpr]] = {}
    for loop in filter(None, loops.split(";")):
        name, _, extent = loop.partition(" in ")
        ranges[name.strip()] = 0, eval(extent, dict(NAMES)) - 1
    return eval(left, dict(NAMES)), relation, eval(right, dict(NAMES)), ranges


def test_the_table_is_long_and_nothing_stands_twice() -> None:
    lines = [" ".join(line.split()) for line in _statements()]
    assert len(lines) >= 400
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_statement_is_proved(chapter: str) -> None:
    failed = []
    for line in CHAPTERS[chapter].strip().splitlines():
        left, relation, right, ranges = _read(line)
        contrary = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[relation]
        if prove(left, relation, right, ranges) is not True:
            failed.append(f"not proved: {line.strip()}")
        elif prove(left, contrary, right, ranges) is not False:
            failed.append(f"contrary not disproved: {line.strip()}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nearly_true_statements_are_not_proved(chapter: str) -> None:
    """Each equality with another right side, at values where the difference shows."""
    rng = random.Random(0)
    for line in CHAPTERS[chapter].strip().splitlines():
        left, relation, right, ranges = _read(line)
        if relation != "==" or ranges:
            continue
        for wrong in (right + 1, right - 1, right * 2, -right):
            outcome = prove(left, "==", wrong)
            for _ in range(8):
                values = {name: rng.randint(1, 40) for name in "xyzijnmkpqr"}
                try:
                    holds = evaluate(left, values) == evaluate(wrong, values)
                except ZeroDivisionError:
                    continue
                assert outcome is None or outcome == holds, line
