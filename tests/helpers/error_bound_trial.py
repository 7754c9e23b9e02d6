"""One random program whose results are held against the bounds of their errors."""

from __future__ import annotations

import loopwright as lw
import numpy as np
from random_draw import RandomDraw
from random_programs import WIDE
from random_steps import draw_program

__all__ = ["trial"]


def trial(seed: int) -> tuple[str, float]:
    """Returns the outcome of a program, and its greatest bound by its greatest error: 0 if there is
    no error or no finite bound."""
    program = draw_program(RandomDraw(seed))
    compiled = lw.compile(program)
    try:
        bounds = compiled.error_bound(*program.inputs)
    except lw.UnsupportedError as error:
        return f"refused: {error.args[0].splitlines()[0]}", 0.0
    results = compiled(*program.inputs)
    many = len(program.outputs) > 1
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in program.inputs]
    with np.errstate(all="ignore"):
        exact = program.run(WIDE, wide)
    errors, greatest = [], []
    for number, result, bound in zip(
        program.outputs, results if many else [results], bounds if many else [bounds], strict=True
    ):
        result, true = np.asarray(result), np.asarray(exact[number])
        if result.dtype.kind != "f" or not result.size:
            continue
        error = np.abs(result.astype(np.float64) - true)
        error = np.where(np.isnan(error) | (result == true), 0.0, error)
        assert bound.shape == result.shape, f"{bound.shape} of {result.shape}"
        slack = 2.0**-50 * np.abs(true)  # the wide run rounds, too
        if (wrong := np.argwhere(~(error <= bound + slack))).size:
            at = tuple(wrong[0])
            said = f"{error[at]:.2e} is more than {bound[at]:.2e} at {[*map(int, at)]}"
            return f"wrong: {said} of\n{program!r}", 0.0
        errors.append(float(error.max()))
        greatest.append(float(bound.max()))
    if not errors or not max(errors) or not np.isfinite(max(greatest)):
        return ("no error" if not errors or not max(errors) else "no finite bound"), 0.0
    return "held", max(greatest) / max(errors)
