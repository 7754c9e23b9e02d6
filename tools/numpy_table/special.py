"""Ufuncs of scipy.special, where SciPy is installed."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("special.expit special.erf special.log_expit special.exp10 special.entr special.cbrt "
        "special.exp2 special.expm1", "{f}(f)", "{f}(e)", limits="fused"),
    row("special.log1p", "{f}(p)", limits="fused"),
    row("special.xlogy special.xlog1py special.rel_entr special.kl_div special.huber",
        "{f}(p, q)", "{f}(f, q)", "{f}(0, p)", limits="fused"),
    row("special.logit special.erfinv", "{f}(u)"),
    row("special.erfc special.erfcx special.gamma special.gammaln special.loggamma special.digamma "
        "special.psi special.rgamma special.ndtr special.log_ndtr special.ndtri special.i0 "
        "special.i1 special.i0e special.i1e special.k0 special.k1 special.j0 special.j1 special.y0 "
        "special.y1 special.exprel special.cosm1 special.dawsn special.zetac "
        "special.exp1 special.expi special.spence special.ellipk special.ellipe "
        "special.sindg special.cosdg special.tandg special.gammasgn special.wofz",
        "{f}(p)", "{f}(i)"),
    row("special.beta special.betaln special.gammainc special.gammaincc special.jv special.yv "
        "special.iv special.kv special.binom special.poch special.boxcox special.inv_boxcox "
        "special.hyp0f1 special.chdtr special.pdtr special.owens_t "
        "special.pseudo_huber", "{f}(p, q)", "{f}(2, f)"),
    row("special.betainc special.hyp1f1 special.fdtr", "{f}(p, q, 0.3)"),
]  # fmt: skip
