"""Statistics and learning."""

# pyright: basic
from __future__ import annotations

import math

import numpy as np

from ..program import textbook


def _chain(n, rng):
    return rng.dirichlet(np.ones(6), 6), rng.dirichlet(np.ones(8), 6), rng.integers(0, 8, n)


def _separable(n, rng):
    x = rng.standard_normal((n, 4))
    return x, np.where(x @ np.array([1.0, -2.0, 0.5, 1.5]) > 0, 1, -1)


@textbook(12, 20_000, lambda n, rng: (np.cumsum(rng.standard_normal(n)), 1e-2, 1.0))
def kalman(measurements, q, r):
    estimates = []
    x, p = 0.0, 1.0
    for z in measurements:
        p = p + q
        gain = p / (p + r)
        x = x + gain * (z - x)
        p = (1 - gain) * p
        estimates.append(x)
    return np.array(estimates)


@textbook(12, 5_000, lambda n, rng: (*_chain(n, rng), np.ones(6) / 6))
def hmm_forward(transition, emission, observed, start):
    alpha = start * emission[:, observed[0]]
    log_likelihood = 0.0
    for t in range(1, len(observed)):
        scale = alpha.sum()
        log_likelihood += math.log(scale)
        alpha = (alpha / scale) @ transition * emission[:, observed[t]]
    return log_likelihood + math.log(alpha.sum())


@textbook(12, 2_000, lambda n, rng: (*_chain(n, rng), np.ones(6) / 6))
def viterbi(transition, emission, observed, start):
    n, states = len(observed), len(start)
    score = np.zeros((n, states))
    back = np.zeros((n, states), dtype=np.int64)
    score[0] = np.log(start) + np.log(emission[:, observed[0]])
    for t in range(1, n):
        for s in range(states):
            best, which = -np.inf, 0
            for before in range(states):
                candidate = score[t - 1, before] + math.log(transition[before, s])
                if candidate > best:
                    best, which = candidate, before
            score[t, s] = best + math.log(emission[s, observed[t]])
            back[t, s] = which
    path = [np.argmax(score[n - 1])]
    for t in range(n - 1, 0, -1):
        path.append(back[t, path[-1]])
    path.reverse()
    return np.array(path)


@textbook(20, 2_000, lambda n, rng: (*_separable(n, rng), 0.01, 5))
def sgd(x, y, rate, epochs):
    w = np.zeros(x.shape[1])
    b = 0.0
    losses = []
    for _ in range(epochs):
        loss = 0.0
        for i in range(len(x)):
            error = x[i] @ w + b - y[i]
            w -= rate * error * x[i]
            b -= rate * error
            loss += error**2
        losses.append(loss / len(x))
    return w, b, np.array(losses)


@textbook(20, 2_000, lambda n, rng: (*_separable(n, rng), 20))
def perceptron(x, y, epochs):
    n, d = x.shape
    w = np.zeros(d)
    for epoch in range(epochs):  # noqa: B007
        mistakes = 0
        for i in range(n):
            activation = 0.0
            for j in range(d):
                activation += w[j] * x[i, j]
            if y[i] * activation <= 0:
                for j in range(d):
                    w[j] += y[i] * x[i, j]
                mistakes += 1
        if mistakes == 0:
            break
    return w, epoch


@textbook(20, 1_000, lambda n, rng: (rng.random((n, 2)), 5, 10))
def k_means(points, k, iterations):
    n = len(points)
    centers = points[:k].copy()
    labels = np.zeros(n, dtype=np.int64)
    for _ in range(iterations):
        for i in range(n):
            best = np.inf
            for c in range(k):
                distance = np.sum((points[i] - centers[c]) ** 2)
                if distance < best:
                    best = distance
                    labels[i] = c
        for c in range(k):
            total = np.zeros(2)
            count = 0
            for i in range(n):
                if labels[i] == c:
                    total += points[i]
                    count += 1
            if count > 0:
                centers[c] = total / count
    return centers, labels


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@textbook(
    5,
    500,
    lambda n, rng: (
        np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
        np.array([0.0, 1.0, 1.0, 0.0]),
        rng.standard_normal((2, 8)),
        rng.standard_normal(8),
        n,
    ),
)
def backpropagation(inputs, targets, w1, w2, epochs):
    w1, w2 = w1.copy(), w2.copy()
    for _ in range(epochs):
        for x, target in zip(inputs, targets):
            hidden = sigmoid(x @ w1)
            output = sigmoid(hidden @ w2)
            delta_output = (output - target) * output * (1 - output)
            delta_hidden = delta_output * w2 * hidden * (1 - hidden)
            w2 -= 0.5 * delta_output * hidden
            w1 -= 0.5 * np.outer(x, delta_hidden)
    return w1, w2


@textbook(20, 20_000, lambda n, rng: (rng.random((30, 2)), rng.random((n, 3))))
def annealing(cities, randoms):
    def distance(a, b):
        return math.sqrt((cities[a, 0] - cities[b, 0]) ** 2 + (cities[a, 1] - cities[b, 1]) ** 2)

    n = len(cities)
    tour = np.arange(n)
    temperature = 1.0
    for u in randoms:
        i, j = int(u[0] * n), int(u[1] * n)
        if i > j:
            i, j = j, i
        if i < j and j - i < n - 1:
            before, after = tour[i - 1], tour[(j + 1) % n]
            change = distance(before, tour[j]) + distance(tour[i], after)
            change -= distance(before, tour[i]) + distance(tour[j], after)
            if change < 0 or u[2] < math.exp(-change / temperature):
                while i < j:
                    tour[i], tour[j] = tour[j], tour[i]
                    i += 1
                    j -= 1
        temperature *= 0.999
    total = 0.0
    for k in range(n):
        total += distance(tour[k - 1], tour[k])
    return tour, total
