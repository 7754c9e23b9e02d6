"""The grey values of a dark image are spread evenly, by their distribution."""

import loopwright as lw
import numpy as np


@lw.compile
def equalisation(image):
    """The image, uint8, with a distribution that is about even."""
    counts = np.bincount(image.ravel(), minlength=256)
    shares = np.cumsum(counts) / image.size
    levels = np.round(255 * shares).astype(np.uint8)
    return levels[image]


def inputs(size=512):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    noise = np.random.default_rng(0).normal(size=x.shape)
    return (np.clip(60 + 25 * np.sin(5 * x) * np.cos(4 * y) + 3 * noise, 0, 255).astype(np.uint8),)


def main():
    (image,) = inputs(128)
    for name, picture in (("before", image), ("after", equalisation(image))):
        print(f"{name}: mean {picture.mean():.0f}, deviation {picture.std():.0f}")
        for row in picture[::6, ::2]:
            print("".join(" .:-=+*#%@"[value // 26] for value in row))


if __name__ == "__main__":
    main()
