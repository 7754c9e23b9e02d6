"""Stars that attract each other: all pairs, by the leapfrog method."""

import loopwright as lw
import numpy as np

G, SOFTENING = 1.0, 0.05


def acceleration(places, masses):
    apart = places[None, :, :] - places[:, None, :]
    inverse_cube = ((apart**2).sum(axis=2) + SOFTENING**2) ** -1.5
    return G * (apart * inverse_cube[:, :, None] * masses[None, :, None]).sum(axis=1)


@lw.compile
def n_body(places, velocities, masses):
    """Places and velocities after 20 steps."""
    dt = 0.01

    def step(_, state):
        places, velocities = state
        velocities = velocities + dt / 2 * acceleration(places, masses)
        places = places + dt * velocities
        velocities = velocities + dt / 2 * acceleration(places, masses)
        return places, velocities

    return lw.fori_loop(0, 20, step, (places, velocities))


def inputs(size=256):
    rng = np.random.default_rng(0)
    return rng.normal(size=(size, 3)), rng.normal(size=(size, 3)) / 10, np.full(size, 1 / size)


def energy(places, velocities, masses):
    apart = places[None, :, :] - places[:, None, :]
    distances = np.sqrt((apart**2).sum(axis=2) + SOFTENING**2)
    pairs = masses[:, None] * masses / distances
    return 0.5 * (masses[:, None] * velocities**2).sum() - G * np.triu(pairs, 1).sum()


def main():
    places, velocities, masses = inputs(100)
    print("time    energy      radius")
    for time in range(11):
        radius = np.sqrt((places**2).sum(axis=1)).mean()
        print(f"{time / 5:4.1f}  {energy(places, velocities, masses):.7f}  {radius:.4f}")
        places, velocities = n_body(places, velocities, masses)


if __name__ == "__main__":
    main()
