"""A picture of two balls on a plane: rays go on by the distance to what is nearest (Hart, 1996)."""

import loopwright as lw
import numpy as np

BALLS = (((-0.8, 0.0, 4.0), 1.0), ((1.0, -0.4, 3.2), 0.6))
LIGHT = np.array([-0.5, 0.7, -0.5])


def distance(p):
    """How far places [n, 3] are from the nearest surface."""
    nearest = p[:, 1] + 1.0
    for centre, radius in BALLS:
        offset = p - np.array(centre)
        nearest = np.minimum(nearest, np.sqrt((offset**2).sum(axis=1)) - radius)
    return nearest


@lw.compile
def ray_marching(rays):
    """Brightness of what the rays [n, 3] meet, from 0 to 1."""
    t = lw.fori_loop(0, 60, lambda _, t: t + distance(t[:, None] * rays), np.zeros(len(rays)))
    p = t[:, None] * rays
    slopes = [distance(p + 1e-4 * axis) - distance(p - 1e-4 * axis) for axis in np.eye(3)]
    normals = np.stack(slopes, axis=1) / 2e-4
    bright = np.maximum(normals @ LIGHT, 0)
    return np.where(t < 20, 0.15 + 0.85 * bright, 0)


def inputs(size=128):
    y, x = np.mgrid[0.8 : -0.8 : size * 1j, -1 : 1 : size * 1j]
    rays = np.stack([x.ravel(), y.ravel(), np.full(x.size, 1.5)], axis=1)
    return (rays / np.sqrt((rays**2).sum(axis=1, keepdims=True)),)


def main():
    for row in ray_marching(*inputs(64)).reshape(64, 64)[::2]:
        print("".join(" .:-=+*#%@"[min(9, int(9.9 * b))] for b in row))


if __name__ == "__main__":
    main()
