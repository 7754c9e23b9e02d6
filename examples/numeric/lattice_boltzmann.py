"""Flow past a cylinder by the lattice Boltzmann method (Bhatnagar, Gross and Krook, 1954)."""

import loopwright as lw
import numpy as np

VELOCITIES = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)])
WEIGHTS = np.array([1, 4, 1, 4, 16, 4, 1, 4, 1]) / 36


def equilibrium(density, u):
    cu = 3 * np.tensordot(VELOCITIES, u, axes=1)
    uu = 1.5 * (u**2).sum(axis=0)
    return density * WEIGHTS[:, None, None] * (1 + cu + 0.5 * cu**2 - uu)


@lw.compile
def lattice_boltzmann(f, solid):
    """Populations [9, x, y] after 50 steps; those in a solid bounce back."""
    inflow = equilibrium(1.0, np.array([0.08, 0.0])[:, None, None])

    def step(_, f):
        density = f.sum(axis=0)
        u = np.tensordot(VELOCITIES.T.astype(float), f, axes=1) / density
        collided = f + (equilibrium(density, u) - f) / 0.56
        f = np.where(solid, f[::-1], collided)
        f = np.stack([np.roll(g, tuple(c), axis=(0, 1)) for g, c in zip(f, VELOCITIES)])
        return np.concatenate([inflow + 0 * f[:, :1], f[:, 1:]], axis=1)

    return lw.fori_loop(0, 50, step, f)


def inputs(size=128):
    x, y = np.mgrid[:size, : size // 2]
    solid = (x - size // 5) ** 2 + (y - size // 4 - 0.5) ** 2 < (size // 14) ** 2
    u = np.zeros((2, size, size // 2))
    u[0] = 0.08
    return equilibrium(1.0, u), solid


def main():
    f, solid = inputs(140)
    for _ in range(20):
        f = lattice_boltzmann(f, solid)
    speed = np.hypot(*np.tensordot(VELOCITIES.T, f, axes=1)) / f.sum(axis=0)
    for row, rock in zip(speed.T[::3], solid.T[::3]):
        print("".join("O" if r else " .:-=+*#%@"[min(9, int(70 * s))] for s, r in zip(row, rock)))


if __name__ == "__main__":
    main()
