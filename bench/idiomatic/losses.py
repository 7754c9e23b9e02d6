"""Losses of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []

_LABELS = Input((128,), "int64", below=10000)


@program((), reduction=10000, x=(128, 10000), labels=_LABELS)
def cross_entropy(x: Any, labels: Any) -> Any:
    shifted = x - x.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -logs[np.arange(128), labels].mean()


@program((), reduction=10000, x=(128, 10000), labels=_LABELS)
def cross_entropy_one_hot(x: Any, labels: Any) -> Any:
    target = (labels[:, None] == np.arange(10000)).astype(x.dtype)
    shifted = x - x.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -(target * logs).sum(axis=1).mean()


@program((), reduction=10000, x=(128, 10000), labels=_LABELS)
def label_smoothing(x: Any, labels: Any) -> Any:
    peak = x.max(axis=1, keepdims=True)
    logs = x - peak - np.log(np.exp(x - peak).sum(axis=1, keepdims=True))
    picked = np.take_along_axis(logs, labels[:, None], axis=1)[:, 0]
    return -(0.9 * picked + 0.1 * logs.mean(axis=1)).mean()


@program((64,), reduction=30522, x=(64, 30522))
def logsumexp_30522(x: Any) -> Any:
    peak = x.max(axis=-1, keepdims=True)
    return (np.log(np.exp(x - peak).sum(axis=-1, keepdims=True)) + peak)[:, 0]


@program((), reduction=1 << 18, scale=0.1, x=(512, 512), y=(512, 512))
def mean_squared_error(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).mean()


@program((), reduction=1 << 18, scale=0.1, x=(512, 512), y=(512, 512))
def huber(x: Any, y: Any) -> Any:
    error = np.abs(x - y)
    return np.where(error < 1, 0.5 * error**2, error - 0.5).mean()


@program((), reduction=1 << 18, scale=0.1, x=(512, 512), y=(512, 512))
def binary_cross_entropy(x: Any, y: Any) -> Any:
    return (np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))).mean()


@program((), reduction=1000, scale=0.1, x=(256, 1000), y=(256, 1000))
def kl_divergence(x: Any, y: Any) -> Any:
    a = x - x.max(1, keepdims=True)
    b = y - y.max(1, keepdims=True)
    log_p = a - np.log(np.exp(a).sum(1, keepdims=True))
    log_q = b - np.log(np.exp(b).sum(1, keepdims=True))
    return (np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean()


@program((), flops=2 * 256 * 256 * 128, reduction=256, scale=10.0, x=(256, 128), y=(256, 128))
def contrastive(x: Any, y: Any) -> Any:
    x = x / np.sqrt((x * x).sum(1, keepdims=True))
    y = y / np.sqrt((y * y).sum(1, keepdims=True))
    scores = x @ y.T / 0.07
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -np.diagonal(logs).mean()
