"""np.fft, differences, convolutions, interpolation, polynomials."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row(
        "np.fft.fft np.fft.ifft np.fft.rfft np.fft.irfft np.fft.hfft np.fft.ihfft",
        "{f}(m, 5)",
        "{f}(m, 4, 0, 'ortho')",
        "{f}(m, 6, norm='forward')",
    ),
    row(
        "np.fft.fft2 np.fft.ifft2 np.fft.rfft2 np.fft.irfft2 np.fft.fftn np.fft.ifftn "
        "np.fft.rfftn np.fft.irfftn",
        "{f}(m, (3, 4), (0, 1))",
        "{f}(m, (4, 5), (1, 0), 'ortho')",
    ),
    row("np.fft.fftshift np.fft.ifftshift", "{f}(x1)", "{f}(x2, axes=(0, 1))"),
    row(
        "np.fft.fftfreq np.fft.rfftfreq",
        "np.ones_like(v[0]) * {f}(6)",
        "np.ones_like(v[0]) * {f}(5, 0.5)",
    ),
    row("np.diff", "{f}(f1)", "{f}(x1, 1, axis)", "{f}(f1, 2, axis)", "{f}(v, prepend=0)"),
]
