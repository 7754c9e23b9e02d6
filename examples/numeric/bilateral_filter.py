"""Smoothing that keeps edges: near pixels count by distance and likeness (Tomasi, 1998)."""

import loopwright as lw
import numpy as np

RADIUS, NEAR, ALIKE = 3, 2.0, 0.15


@lw.compile
def bilateral_filter(image):
    """The filtered image; float32[h, w] from 0 to 1."""
    h, w = image.shape
    padded = np.pad(image, RADIUS, mode="reflect")
    total, weights = np.zeros_like(image), np.zeros_like(image)
    for dy in range(2 * RADIUS + 1):
        for dx in range(2 * RADIUS + 1):
            other = padded[dy : dy + h, dx : dx + w]
            squares = ((dy - RADIUS) ** 2 + (dx - RADIUS) ** 2) / NEAR**2
            weight = np.exp(-0.5 * (squares + ((other - image) / ALIKE) ** 2))
            total = total + weight * other
            weights = weights + weight
    return total / weights


def inputs(size=256):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    image = 0.2 + 0.6 * (np.hypot(x, y) < 0.6)
    noise = np.random.default_rng(0).normal(scale=0.1, size=image.shape)
    return ((image + noise).astype(np.float32),)


def main():
    (image,) = inputs(64)
    for picture in (image, bilateral_filter(image)):
        for row in picture[::3]:
            print("".join(" .:-=+*#%@"[int(np.clip(10 * p, 0, 9))] for p in row))


if __name__ == "__main__":
    main()
