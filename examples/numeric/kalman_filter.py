"""Tracking what moves in a plane by a Kalman filter (1960): positions are measured, with noise."""

import loopwright as lw
import numpy as np

DT = 0.1
F = np.eye(4) + DT * np.eye(4, k=2)  # x, y, and their velocities
H = np.eye(2, 4)
Q = 1e-3 * np.eye(4)
R = 0.25 * np.eye(2)


def inverse(m):
    """The inverse of a 2 x 2 matrix."""
    (a, b), (c, d) = m
    return np.array([[d, -b], [-c, a]]) / (a * d - b * c)


@lw.compile
def kalman_filter(measured):
    """The estimated state after each measurement."""

    def step(state, z):
        x, P = state
        x, P = F @ x, F @ P @ F.T + Q
        gain = P @ H.T @ inverse(H @ P @ H.T + R)
        x = x + gain @ (z - H @ x)
        P = (np.eye(4) - gain @ H) @ P
        return (x, P), x

    return lw.scan(step, (np.zeros(4), np.eye(4)), measured)[1]


def track(size):
    """Where it is: a lemniscate."""
    t = DT * np.arange(size) / 5
    return 10 * np.stack([np.sin(t), np.sin(2 * t) / 2], axis=1)


def inputs(size=2000):
    return (track(size) + np.random.default_rng(0).normal(scale=0.5, size=(size, 2)),)


def main():
    (measured,) = inputs(300)
    states = kalman_filter(measured)
    truth = track(300)
    for name, places in (("measured", measured), ("filtered", states[:, :2])):
        error = np.sqrt(((places - truth)[50:] ** 2).sum(axis=1).mean())
        print(f"{name}: off by {error:.3f} (root mean square)")


if __name__ == "__main__":
    main()
