"""Edges of an image: a Gaussian blur, Sobel's gradients, and the ridges of their length."""

import loopwright as lw
import numpy as np


def blur(image, weights):
    """A separable filter; the border is repeated."""
    r = len(weights) // 2
    h, w = image.shape
    padded = np.pad(image, r, mode="edge")
    rows = sum(weights[k] * padded[k : k + h] for k in range(2 * r + 1))
    return sum(weights[k] * rows[:, k : k + w] for k in range(2 * r + 1))


@lw.compile
def edge_detection(image):
    """True where the gradient is steep and steepest along its direction."""
    weights = np.exp(-0.5 * (np.arange(-3, 4) / 1.2) ** 2)
    p = np.pad(blur(image, weights / weights.sum()), 1, mode="edge")
    across = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (
        p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2]
    )
    down = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (
        p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:]
    )
    steep = np.hypot(across, down)
    s = np.pad(steep, 1)
    flat = np.abs(across) > np.abs(down)
    before = np.where(flat, s[1:-1, :-2], s[:-2, 1:-1])
    after = np.where(flat, s[1:-1, 2:], s[2:, 1:-1])
    return (steep > 0.3) & (steep >= before) & (steep > after)


def inputs(size=512):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    image = (np.hypot(x + 0.3, y) < 0.4) + 0.5 * (np.abs(x - 0.4) + np.abs(y) < 0.4)
    return (image + 0.05 * np.random.default_rng(0).normal(size=image.shape),)


def main():
    for row in edge_detection(*inputs(64))[::2]:
        print("".join(np.where(row, "#", " ")).rstrip())


if __name__ == "__main__":
    main()
