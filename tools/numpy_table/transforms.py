"""np.fft, differences, convolutions, interpolation, polynomials."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.polyval", "{f}([1, 2, 3], f)", "{f}(v, w)", "{f}(v, 2)"),
    row("np.polyadd np.polysub", "{f}(v, [1, 2])", "{f}(iv, v)"),
    row("np.polymul", "{f}(sv, [1, 2])", "{f}(sv, sv)",
        limits="zeros in front are dropped"),
    row("np.polyder", "{f}(v)", "{f}(iv, 2)"),
    row("np.polyint", "{f}(v)", "{f}(iv, 2, [1, 2])", "{f}(v, k=3)"),
    row("np.poly", "{f}(v)", limits="zeros, no matrices"),
    row("np.polyfit", "{f}(sv, v, 0)", "{f}(np.arange(5), m[0, 0] * np.arange(5) ** 2, 2)",
        "{f}(np.arange(4), np.arange(4) * v[0], 1, w=[1, 2, 1, 1])", limits="no full=, cov="),
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
    row("np.gradient", "{f}(v)", "{f}(m, axis=0)", "{f}(v, 0.5)", "{f}(v, sv, edge_order=2)",
        "{f}(x2)", "{f}(v, edge_order=2)", "{f}(f2, 2, axis=axis)"),
    row("np.trapezoid", "{f}(v)", "{f}(f1, axis=axis)", "{f}(v, sv)", "{f}(f1, f1, axis=axis)",
        "{f}(i, dx=2)"),
    row("np.ediff1d", "{f}(f)", "{f}(i, to_end=[1, 2])", "{f}(v, to_begin=0)"),
    row("np.unwrap", "{f}(5 * f)", "{f}(9 * f1, axis=axis)", "{f}(i, period=7)",
        "{f}(i, period=6)", "{f}(v, 4)"),
    row("np.interp", "{f}(f, sv, v)", "{f}(x, [0, 1, 3], [5, -1, 2])", "{f}(v, sv, w, left=-1)",
        "{f}(e, sv, v, right=7)", "{f}(sv, sv, v)", limits="no period="),
    row("np.convolve", "{f}(v, w)", "{f}(v, iv, 'same')", "{f}(v, [1, 2], 'valid')", "{f}(iv, iv)",
        "{f}([1, 0.5, 0.25], v)"),
    row("np.correlate", "{f}(v, w)", "{f}(v, iv, 'same')", "{f}([1, 2, 3], v, 'full')",
        "{f}(iv, [1, 2], 'full')"),
    row("np.vander", "{f}(v)", "{f}(v, 3)", "{f}(iv, increasing=True)", "{f}(v, 0)"),
    row("np.diff", "{f}(f1)", "{f}(x1, 1, axis)", "{f}(f1, 2, axis)", "{f}(v, prepend=0)"),
]  # fmt: skip
