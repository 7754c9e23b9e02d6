"""A symmetric system by conjugate gradients (Hestenes and Stiefel, 1952): Poisson's equation."""

import loopwright as lw
import numpy as np


def apply(u):
    """Minus the Laplacian of ``u``, which is zero outside."""
    p = np.pad(u, 1)
    return 4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


@lw.compile
def conjugate_gradient(b):
    """The solution and the number of iterations."""

    def goes_on(state):
        return state[3] > 1e-16

    def improve(state):
        x, r, p, rr, steps = state
        ap = apply(p)
        alpha = rr / (p * ap).sum()
        x, r = x + alpha * p, r - alpha * ap
        previous, rr = rr, (r * r).sum()
        return x, r, r + rr / previous * p, rr, steps + 1

    x, _, _, _, steps = lw.while_loop(goes_on, improve, (np.zeros_like(b), b, b, (b * b).sum(), 0))
    return x, steps


def inputs(size=128):
    b = np.zeros((size, size))
    b[size // 4, size // 4], b[3 * size // 4, size // 2] = 1.0, -1.0
    return (b,)


def main():
    (b,) = inputs(40)
    x, steps = conjugate_gradient(b)
    print(f"{steps} iterations, residual {np.abs(apply(x) - b).max():.1e}")
    shades = np.clip((x / np.abs(x).max() * 2 + 1) * 4.5, 0, 9).astype(int)
    print("\n".join("".join(" .:-=+*#%@"[s] for s in row) for row in shades[::2]))


if __name__ == "__main__":
    main()
