"""An image through the cosine transform of its 8 x 8 blocks, quantised as by JPEG, and back."""

import loopwright as lw
import numpy as np

k = np.arange(8)
DCT = np.cos(np.pi * k[:, None] * (2 * k + 1) / 16) / 2
DCT[0] /= np.sqrt(2)


@lw.compile
def jpeg(image, coarseness):
    """The image after compression, and how many of its coefficients are not zero."""
    h, w = image.shape
    blocks = image.reshape(h // 8, 8, w // 8, 8).transpose(0, 2, 1, 3) - 128
    steps = coarseness * (1 + k[:, None] + k)
    kept = np.round(DCT @ blocks @ DCT.T / steps)
    back = DCT.T @ (kept * steps) @ DCT + 128
    return np.clip(back.transpose(0, 2, 1, 3).reshape(h, w), 0, 255), np.count_nonzero(kept)


def inputs(size=512):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    noise = np.random.default_rng(0).normal(size=x.shape)
    return 128 + 60 * np.sin(8 * x * y) + 40 * (np.hypot(x, y) < 0.5) + 4 * noise, 5.0


def main():
    image, _ = inputs(256)
    print("coarseness  kept    peak signal to noise ratio")
    for coarseness in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        back, kept = jpeg(image, coarseness)
        noise = ((back - image) ** 2).mean()
        print(
            f"{coarseness:10.0f}  {kept / image.size:5.1%}  {10 * np.log10(255**2 / noise):5.1f} dB"
        )


if __name__ == "__main__":
    main()
