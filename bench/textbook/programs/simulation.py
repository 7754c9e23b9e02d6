"""Simulations, fractals and geometry."""

# pyright: basic
from __future__ import annotations

import math

import numpy as np

from ..program import textbook


@textbook(8, 64, lambda n, rng: (rng.integers(0, 2, (n, n)), 20))
def game_of_life(board, generations):
    n, m = board.shape
    for _ in range(generations):
        new = np.zeros((n, m), dtype=board.dtype)
        for i in range(n):
            for j in range(m):
                neighbours = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if di != 0 or dj != 0:
                            neighbours += board[(i + di) % n, (j + dj) % m]
                if neighbours == 3 or (board[i, j] == 1 and neighbours == 2):
                    new[i, j] = 1
        board = new
    return board


@textbook(30, 1_000, lambda n, rng: (110, n, n // 2))
def cellular_automaton(rule, width, steps):
    history = np.zeros((steps, width), dtype=np.int64)
    history[0, width // 2] = 1
    for t in range(1, steps):
        for i in range(width):
            left = history[t - 1, (i - 1) % width]
            center = history[t - 1, i]
            right = history[t - 1, (i + 1) % width]
            history[t, i] = (rule >> (4 * left + 2 * center + right)) & 1
    return history


@textbook(8, 150, lambda n, rng: (n, n, 100))
def mandelbrot(width, height, limit):
    image = np.zeros((height, width), dtype=np.int64)
    for row in range(height):
        for column in range(width):
            c = complex(-2.0 + 3.0 * column / width, -1.5 + 3.0 * row / height)
            z = 0j
            count = 0
            while abs(z) <= 2 and count < limit:
                z = z * z + c
                count += 1
            image[row, column] = count
    return image


@textbook(8, 150, lambda n, rng: (n, -0.8, 0.156, 100))
def julia(n, cx, cy, limit):
    image = np.zeros((n, n), dtype=np.int64)
    for row in range(n):
        for column in range(n):
            x = -1.5 + 3.0 * column / n
            y = -1.5 + 3.0 * row / n
            for count in range(limit):  # noqa: B007
                if x * x + y * y > 4:
                    break
                x, y = x * x - y * y + cx, 2 * x * y + cy
            image[row, column] = count
    return image


@textbook(6, 40, lambda n, rng: (rng.choice([-1, 1], (n, n)), rng.random((20 * n * n, 3)), 0.44))
def ising(spins, randoms, beta):
    n = len(spins)
    energies = []
    energy = 0
    for u in randoms:
        i, j = int(u[0] * n), int(u[1] * n)
        around = spins[i - 1, j] + spins[(i + 1) % n, j] + spins[i, j - 1] + spins[i, (j + 1) % n]
        change = 2 * spins[i, j] * around
        if change <= 0 or u[2] < math.exp(-beta * change):
            spins[i, j] = -spins[i, j]
            energy += change
        energies.append(energy)
    return spins, np.array(energies)


@textbook(30, 200_000, lambda n, rng: (n, 12345))
def random_walk(steps, seed):
    x, y = 0, 0
    farthest = 0
    for _ in range(steps):
        seed = (1103515245 * seed + 12345) % 2147483648
        direction = seed // 65536 % 4
        if direction == 0:
            x += 1
        elif direction == 1:
            x -= 1
        elif direction == 2:
            y += 1
        else:
            y -= 1
        farthest = max(farthest, x * x + y * y)
    return x, y, farthest


def _quadrants(n, rng):
    points = rng.random((n, 2))
    return points, np.ones(n) / n, 0.5


@textbook(8, 500, _quadrants)
def barnes_hut(points, masses, theta):
    n = len(points)
    children = np.full((8 * n + 64, 4), -1)
    mass = np.zeros(8 * n + 64)
    center = np.zeros((8 * n + 64, 2))
    body = np.full(8 * n + 64, -1)
    nodes = 1
    for p in range(n):
        node, x, y, half = 0, 0.5, 0.5, 0.5
        placed = False
        while not placed:
            total = mass[node] + masses[p]
            old = body[node]
            is_leaf = mass[node] > 0 and old >= 0
            center[node, 0] = (center[node, 0] * mass[node] + points[p, 0] * masses[p]) / total
            center[node, 1] = (center[node, 1] * mass[node] + points[p, 1] * masses[p]) / total
            mass[node] = total
            if mass[node] == masses[p]:
                body[node] = p
                placed = True
            else:
                if is_leaf:
                    q = (points[old, 0] > x) + 2 * (points[old, 1] > y)
                    children[node, q] = nodes
                    mass[nodes] = masses[old]
                    center[nodes] = points[old]
                    body[nodes] = old
                    body[node] = -1
                    nodes += 1
                q = (points[p, 0] > x) + 2 * (points[p, 1] > y)
                if children[node, q] < 0:
                    children[node, q] = nodes
                    nodes += 1
                half /= 2
                x += half if points[p, 0] > x else -half
                y += half if points[p, 1] > y else -half
                node = children[node, q]
    forces = np.zeros((n, 2))
    for p in range(n):
        stack = [(0, 1.0)]
        while len(stack) > 0:
            node, size = stack.pop()
            dx = center[node, 0] - points[p, 0]
            dy = center[node, 1] - points[p, 1]
            r = math.sqrt(dx * dx + dy * dy + 1e-6)
            if body[node] >= 0 or size < theta * r:
                if body[node] != p:
                    forces[p, 0] += mass[node] * dx / r**3
                    forces[p, 1] += mass[node] * dy / r**3
            else:
                for q in range(4):
                    if children[node, q] >= 0:
                        stack.append((children[node, q], size / 2))
    return forces


def cross(o, a, b):
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


@textbook(12, 5_000, lambda n, rng: (rng.random((n, 2)),))
def convex_hull(points):
    points = points[np.argsort(points[:, 0])]
    lower = []
    for p in points:
        while len(lower) >= 2 and cross(lower[-2], lower[-1], p) <= 0:
            lower.pop()
        lower.append(p)
    upper = []
    for p in points[::-1]:
        while len(upper) >= 2 and cross(upper[-2], upper[-1], p) <= 0:
            upper.pop()
        upper.append(p)
    return lower[:-1] + upper[:-1]


def _polygon(n, rng):
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    radius = 0.3 + 0.2 * rng.random(40)
    corners = 0.5 + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return corners, rng.random((n, 2))


@textbook(20, 1_000, _polygon)
def point_in_polygon(polygon, points):
    def inside(x, y):
        result = False
        j = len(polygon) - 1
        for i in range(len(polygon)):
            xi, yi = polygon[i]
            xj, yj = polygon[j]
            if (yi > y) != (yj > y) and x < (xj - xi) * (y - yi) / (yj - yi) + xi:
                result = not result
            j = i
        return result

    return sum([inside(x, y) for x, y in points])


@textbook(8, 200, lambda n, rng: (rng.random((n, 3)),))
def closest_pair(points):
    best = np.inf
    pair = (0, 0)
    for i in range(len(points)):
        for j in range(i + 1, len(points)):
            d = np.sqrt(np.sum((points[i] - points[j]) ** 2))
            if d < best:
                best = d
                pair = (i, j)
    return best, pair
