"""An image without its noise: total variation by Chambolle's projections (2004)."""

import loopwright as lw
import numpy as np


def gradient(u):
    across = np.concatenate([u[:, 1:] - u[:, :-1], np.zeros((len(u), 1))], axis=1)
    down = np.concatenate([u[1:] - u[:-1], np.zeros((1, u.shape[1]))])
    return across, down


def divergence(px, py):
    """Minus the adjoint of the gradient."""
    across = np.diff(px[:, :-1], axis=1, prepend=0, append=0)
    down = np.diff(py[:-1], axis=0, prepend=0, append=0)
    return across + down


@lw.compile
def total_variation(image):
    """The smoother image, after 50 iterations."""
    weight, tau = 0.15, 0.25

    def project(_, p):
        gx, gy = gradient(divergence(*p) - image / weight)
        scale = 1 + tau * np.sqrt(gx**2 + gy**2)
        return (p[0] + tau * gx) / scale, (p[1] + tau * gy) / scale

    p = lw.fori_loop(0, 50, project, (np.zeros_like(image), np.zeros_like(image)))
    return image - weight * divergence(*p)


def inputs(size=256):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    image = 0.3 + 0.5 * (np.abs(x) + np.abs(y) < 0.6)
    return (image + np.random.default_rng(0).normal(scale=0.1, size=image.shape),)


def main():
    (image,) = inputs(64)
    for picture in (image, total_variation(image)):
        for row in picture[::3]:
            print("".join(" .:-=+*#%@"[int(np.clip(10 * p, 0, 9))] for p in row))


if __name__ == "__main__":
    main()
