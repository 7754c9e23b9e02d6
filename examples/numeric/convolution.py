"""A layer of a convolutional network by strides: windows of the image, and one product."""

import loopwright as lw
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


@lw.compile
def convolution(images, filters):
    """Images [n, h, w, c] through filters [kh, kw, c, d], and the greatest of each 2 x 2."""
    kh, kw = filters.shape[:2]
    windows = sliding_window_view(images, (kh, kw), axis=(1, 2))  # [n, h', w', c, kh, kw]
    features = np.maximum(np.einsum("nhwcij,ijcd->nhwd", windows, filters), 0)
    n, h, w, d = features.shape
    return features.reshape(n, h // 2, 2, w // 2, 2, d).max(axis=(2, 4))


def inputs(size=32, images=8, channels=8, filters=16):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((images, size + 2, size + 2, channels), np.float32)
    return x, rng.standard_normal((3, 3, channels, filters), np.float32) / 8


def main():
    y, x = np.mgrid[-1:1:42j, -1:1:102j]
    image = ((x**2 + y**2 < 0.6) & (x**2 + y**2 > 0.2)).astype(np.float32)
    sobel = np.outer([1, 2, 1], [1, 0, -1]).astype(np.float32)
    filters = np.stack([sobel, sobel.T], axis=2)[:, :, None]
    for edges in np.moveaxis(convolution(image[None, :, :, None], filters)[0], 2, 0):
        print("\n".join("".join(" .:-=+*#%@"[min(9, int(2 * e))] for e in row) for row in edges))


if __name__ == "__main__":
    main()
