"""Lines in a picture by Hough's transform (1962): each point votes for all lines through it."""

import loopwright as lw
import numpy as np


@lw.compile
def hough(x, y, angles):
    """Votes [angles, distances] for lines ``x cos a + y sin a = distance``, from -200 to 200."""
    distances = np.round(np.outer(np.cos(angles), x) + np.outer(np.sin(angles), y)).astype(int)
    votes = np.zeros((len(angles), 401), np.int64)
    np.add.at(votes, (np.arange(len(angles))[:, None], distances + 200), 1)
    return votes


def inputs(size=2000):
    rng = np.random.default_rng(0)
    t = rng.uniform(-100, 100, size)
    line = np.arange(size) % 4  # two lines, and noise
    x = np.choose(
        line, [t, 0.5 * t + 30, rng.uniform(-100, 100, size), rng.uniform(-100, 100, size)]
    )
    y = np.choose(line, [0.3 * t - 20, -t, t, t])
    return x, y, np.linspace(0, np.pi, 90, endpoint=False)


def main():
    x, y, angles = inputs()
    votes = hough(x, y, angles)
    for row in votes.reshape(30, 3, 401)[:, :, :400].max(axis=1).reshape(30, 80, 5).max(axis=2):
        print("".join(" .:-=+*#%@"[min(9, int(v) // 10)] for v in row).rstrip())
    for best in np.argsort(-votes.ravel())[:3]:
        angle, distance = np.unravel_index(best, votes.shape)
        degrees = np.degrees(angles[angle])
        print(f"angle {degrees:5.1f}, distance {distance - 200:4d}: {votes.flat[best]} votes")


if __name__ == "__main__":
    main()
