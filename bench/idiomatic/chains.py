"""Long chains of elementwise operators, and integer arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []

_PLANE = (256, 256)


@program(_PLANE, strays=2e-3, x=_PLANE, y=_PLANE)
def mandelbrot(x: Any, y: Any) -> Any:
    re, im = np.zeros_like(x), np.zeros_like(y)
    count = np.zeros_like(x)
    for _ in range(12):
        re, im = re * re - im * im + x, 2 * re * im + y
        inside = re * re + im * im < 4
        re, im = np.where(inside, re, 0), np.where(inside, im, 0)
        count = count + inside
    return count


@program(_PLANE, reduction=16, x=_PLANE)
def newton_cube_root(x: Any) -> Any:
    a = np.abs(x) + 1
    y = a
    for _ in range(16):
        y = y - (y * y * y - a) / (3 * y * y)
    return y


@program(_PLANE, reduction=48, x=_PLANE, v=_PLANE)
def runge_kutta(x: Any, v: Any) -> Any:
    h = 0.05
    for _ in range(4):
        k1, l1 = v, -np.sin(x)
        k2, l2 = v + h / 2 * l1, -np.sin(x + h / 2 * k1)
        k3, l3 = v + h / 2 * l2, -np.sin(x + h / 2 * k2)
        k4, l4 = v + h * l3, -np.sin(x + h * k3)
        x, v = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), v + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
    return x


@program((1 << 18,), reduction=40, x=(1 << 18,))
def polynomial_40(x: Any) -> Any:
    x = np.tanh(x)
    total = np.ones_like(x)
    for n in range(40, 0, -1):
        total = total * x / n + 1
    return total


@program((1 << 18,), reduction=60, scale=100.0, x=(1 << 18,), y=(1 << 18,))
def black_scholes(x: Any, y: Any) -> Any:
    spot, strike = 100 * np.exp(0.1 * x), 100 * np.exp(0.1 * y)
    d1 = (np.log(spot / strike) + 0.06) / 0.2
    d2 = d1 - 0.2

    def normal(d: Any) -> Any:
        k = 1 / (1 + 0.2316419 * np.abs(d))
        tail = k * (
            0.319381530
            + k * (-0.356563782 + k * (1.781477937 + k * (k * 1.330274429 - 1.821255978)))
        )
        density = np.exp(-0.5 * d * d) * 0.3989423
        return np.where(d >= 0, 1 - density * tail, density * tail)

    return spot * normal(d1) - strike * math.exp(-0.04) * normal(d2)


@program((1 << 18,), dtype="uint32", x=Input((1 << 18,), "uint32", below=1 << 31))
def integer_hash(x: Any) -> Any:
    for _ in range(3):
        x = x ^ (x >> 16)
        x = x * np.uint32(0x7FEB352D)
        x = x ^ (x >> 15)
        x = x * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


@program((1 << 18,), dtype="uint32", x=Input((1 << 18,), "uint32", below=1 << 31))
def xorshift32(x: Any) -> Any:
    for _ in range(4):
        x = x ^ (x << np.uint32(13))
        x = x ^ (x >> np.uint32(17))
        x = x ^ (x << np.uint32(5))
    return x


@program((1 << 17,), dtype="uint64", x=Input((1 << 17,), "uint64", below=1 << 62))
def splitmix64(x: Any) -> Any:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@program((1 << 17,), dtype="uint64", x=Input((1 << 17,), "uint64", below=1 << 62))
def fnv1a_of_bytes(x: Any) -> Any:
    code = np.zeros_like(x) + np.uint64(0xCBF29CE484222325)
    for k in range(8):
        code = code ^ ((x >> np.uint64(8 * k)) & np.uint64(255))
        code = code * np.uint64(0x100000001B3)
    return code


@program((1 << 18,), dtype="uint32", x=Input((1 << 18,), "uint32", below=1 << 31))
def rotate_and_add(x: Any) -> Any:
    for by in (7, 12, 18, 25):
        x = (x << np.uint32(by)) | (x >> np.uint32(32 - by))
        x = x + np.uint32(0x9E3779B9)
    return x


@program((1 << 17,), dtype="int64", days=Input((1 << 17,), "int64", below=3_000_000))
def year_of_day(days: Any) -> Any:
    """The civil year of a count of days since 0000-03-01, by divisions by constants."""
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day = day - (365 * year + year // 4 - year // 100)
    return era * 400 + year + (day >= 306)


@program((1 << 18,), dtype="int32", t=Input((1 << 18,), "int32", below=1 << 30))
def clock_time(t: Any) -> Any:
    return t // 3600 % 24 * 10000 + t // 60 % 60 * 100 + t % 60


@program((1 << 18,), dtype="float64", reduction=8, x=Input((1 << 18,), "float64", span=(0.0, 1.0)))
def srgb_to_linear(x: Any) -> Any:
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


@program(
    (1 << 17,),
    dtype="float64",
    reduction=8,
    scale=10.0,
    rate=Input((1 << 17,), "float64", span=(1.0, 1.1)),
    years=Input((1 << 17,), "float64", span=(0.0, 30.0)),
)
def compound_interest(rate: Any, years: Any) -> Any:
    return rate**years


@program((1 << 17,), dtype="float64", reduction=8, p=Input((1 << 17,), "float64", span=(0.01, 1.0)))
def decibels(p: Any) -> Any:
    return 10 * np.log10(p) + np.log2(p) - np.log1p(p)


@program((256, 256, 3), reduction=8, x=(256, 256, 3))
def tone_map(x: Any) -> Any:
    light = np.abs(x)
    grey = light @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    scaled = light / (1 + grey[..., None])
    return np.clip(scaled, 0, 1) ** (1 / 2.2)


@program((512, 512), reduction=8, x=(512, 512), g=(512, 512), m=(512, 512), v=(512, 512))
def adam_step(x: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * np.abs(v) + 0.001 * g * g
    return x - 1e-3 * (m / (1 - 0.9**10)) / (np.sqrt(v / (1 - 0.999**10)) + 1e-8)


@program((256, 512), reduction=8, x=(256, 2048), c=(256, 512))
def lstm_gates(x: Any, c: Any) -> Any:
    i, f, g, o = np.split(x, 4, axis=1)
    sigmoid = [1 / (1 + np.exp(-z)) for z in (i, f, o)]
    c = sigmoid[1] * c + sigmoid[0] * np.tanh(g)
    return sigmoid[2] * np.tanh(c)
