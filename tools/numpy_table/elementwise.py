"""Functions by element."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.array_equiv", "{f}(x, y)", "{f}(v, [1, 2, 3])"),
    row("np.negative np.square", "{f}(e)", "{f}(i)", "{f}(x)"),
    row("np.absolute np.abs np.positive np.sign", "{f}(e)", "{f}(x)", "{f}(i)"),
    row("np.fabs np.sqrt np.cbrt np.exp np.exp2 np.expm1 np.sin np.cos", "{f}(e)", "{f}(x)"),
    row("np.tan np.arctan np.atan np.sinh np.asinh np.arcsinh np.cosh np.tanh", "{f}(f)", "{f}(x)"),
    row("np.log np.log2 np.log10 np.log1p", "{f}(p)", "{f}(n)", "{f}(e)"),
    row("np.arcsin np.asin np.arccos np.acos np.arctanh np.atanh", "{f}(u)", "{f}(b)"),
    row("np.arccosh np.acosh", "{f}(o)", "{f}(n)"),
    row("np.floor np.ceil np.trunc np.fix np.rint", "{f}(3 * e)", "{f}(i)"),
    row("np.round np.around", "{f}(e)", "{f}(f, 2)", "{f}(i)", limits="integers: decimals >= 0"),
    row("np.reciprocal", "{f}(p)", "{f}(n)"),
    row("np.isnan np.isinf np.isfinite np.isposinf np.isneginf", "{f}(e)", "{f}(f)"),
    row("np.signbit", "{f}(e)", "{f}(f)"),
    row("np.logical_not", "{f}(e)", "{f}(x)"),
    row("np.invert np.bitwise_not np.bitwise_invert", "{f}(i)", "{f}(b)"),
    row("np.deg2rad np.rad2deg np.radians np.degrees np.sinc np.nan_to_num", "{f}(e)"),
    row("np.modf", "{f}(e)", "{f}(f)"),
    row("np.conjugate np.conj", "{f}(f)", "{f}(i)"),
    row("np.real np.isrealobj np.iscomplexobj", "{f}(x)"),
    row("np.add np.multiply np.maximum np.minimum", "{f}(x, y)", "{f}(e, f)", "{f}(i, 3)"),
    row("np.subtract", "{f}(f, y)", "{f}(i, 2)", "{f}(2.5, x)"),
    row("np.divide np.true_divide", "{f}(x, q)", "{f}(i, n)", "{f}(e, f)"),
    row("np.floor_divide np.remainder np.mod np.fmod", "{f}(f, q)", "{f}(i, n)", "{f}(j, 3)"),
    row("np.divmod", "{f}(f, q)", "{f}(i, n)"),
    row("np.power np.pow", "{f}(p, g)", "{f}(f, 2)", "{f}(i, 3)", "{f}(p, 0.5)"),
    row("np.float_power", "{f}(p, g)", "{f}(n, 2)"),
    row("np.fmax np.fmin", "{f}(e, a)", "{f}(i, j)"),
    row("np.copysign np.hypot np.arctan2 np.atan2", "{f}(e, g)", "{f}(f, g)"),
    row("np.logaddexp", "{f}(f, g)", "{f}(e, 1.5)"),
    row("np.heaviside", "{f}(e, 0.5)", "{f}(f, g)"),
    row("np.equal np.not_equal np.less np.less_equal np.greater np.greater_equal",
        "{f}(x, y)", "{f}(e, g)", "{f}(i, 2)"),
    row("np.logical_and np.logical_or np.logical_xor", "{f}(x, y)", "{f}(e, b)"),
    row("np.bitwise_and np.bitwise_or np.bitwise_xor", "{f}(i, 5)", "{f}(b, c)", "{f}(i, i)"),
    row("np.left_shift np.bitwise_left_shift np.right_shift np.bitwise_right_shift", "{f}(n, 1)"),
    row("np.isclose", "{f}(f, g)", "{f}(e, e, equal_nan=True)", "{f}(e, 0, atol=0.5)"),
    row("np.allclose", "{f}(f, g)", "{f}(e, e, equal_nan=True)"),
    row("np.array_equal", "{f}(x, y)", "{f}(e, e, equal_nan=True)", "{f}(x, x)"),
    row("np.where", "{f}(b, x, y)", "{f}(f > 0, f, 0)", limits="three arguments"),
    row("np.clip", "{f}(f, -0.5, 0.5)", "{f}(i, 0, 5)", "{f}(e, None, 1)", "{f}(f, g, 1)"),
    row("np.select", "{f}([f < 0, f < 1], [f, f * 2], 7)"),
    row("np.astype", "{f}(f, dt)", "{f}(b, dt)"),
    row("np.copy", "{f}(x)"),
    row("np.result_type", "f.astype({f}(f, g))"),
]  # fmt: skip
