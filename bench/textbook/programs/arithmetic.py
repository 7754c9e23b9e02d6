"""Numbers: primes, divisors, sequences."""

# pyright: basic
from __future__ import annotations

import numpy as np

from ..program import textbook


@textbook(60, 2_000_000, lambda n, rng: (n,))
def sieve(n):
    is_prime = np.ones(n + 1, dtype=np.bool_)
    is_prime[0] = is_prime[1] = False
    i = 2
    while i * i <= n:
        if is_prime[i]:
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
        i += 1
    return is_prime.sum()


@textbook(100, 20_000, lambda n, rng: (n,))
def primes_below(n):
    primes = []
    for candidate in range(2, n):
        for p in primes:
            if candidate % p == 0:
                break
        else:
            primes.append(candidate)
    return np.array(primes)


@textbook(30, 30_000, lambda n, rng: (n,))
def collatz_longest(limit):
    best, best_start = 0, 1
    for start in range(1, limit):
        n, steps = start, 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        if steps > best:
            best, best_start = steps, start
    return best_start, best


def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@textbook(12, 400, lambda n, rng: (n,))
def coprime_pairs(n):
    count = 0
    for a in range(1, n + 1):
        for b in range(1, n + 1):
            if gcd(a, b) == 1:
                count += 1
    return count


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


@textbook(10, 27, lambda n, rng: (n,))
def fibonacci(n):
    return fib(n)


@textbook(10, 33, lambda n, rng: (n,))
def catalan(n):
    numbers = [1]
    for k in range(1, n + 1):
        total = 0
        for i in range(k):
            total += numbers[i] * numbers[k - 1 - i]
        numbers.append(total)
    return np.array(numbers)


@textbook(20, 100_000, lambda n, rng: (n,))
def modular_powers(n):
    total = 0
    for base in range(1, n):
        result, b, exponent = 1, base % 1009, 1007
        while exponent > 0:
            if exponent & 1:
                result = result * b % 1009
            b = b * b % 1009
            exponent >>= 1
        total += result
    return total
