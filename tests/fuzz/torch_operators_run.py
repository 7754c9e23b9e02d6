"""Random programs of all PyTorch operators: ``python tests/fuzz/torch_operators_run.py 0:2000``.

Each is run by eager PyTorch as it was drawn and, by its seed, exported, compiled by
``torch.compile`` for its sizes, for all sizes and called with two of them, or trained. Prints each
that crashes or is wrong, cut down to its first steps, and in numbers what happened; and the rows of
the importer's table that no graph has used.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[2]))

import loopwright as lw
import torch
from forked_chunks import outcomes
from loopwright.doors.torch_model import backend
from loopwright.tracer.frontends.torch import importer
from loopwright.tracer.frontends.torch.decompositions import decompositions
from loopwright.tracer.frontends.torch.table import ROWS, arguments
from random_torch_operators import IN_ORDER, Drawn, OperatorProgram, differences, draw_operators
from torch import Tensor

MODES = ("exported", "compiled", "all sizes", "trained")
used: Counter[str] = Counter()


def _counted(row: Any, *args: Any) -> Any:
    used[row.name] += 1
    return arguments(row, *args)


importer.arguments = _counted


THEIRS = "aot_eager_decomp_partition"
"""PyTorch's own compiler without code of its own: where it fails, the program is not judged."""


def _compiled(program: Any, dynamic: bool = False, theirs: bool = False) -> Any:
    torch._dynamo.reset()
    options = {"threads": 1, "fallback": True}
    chosen: Any = {"backend": THEIRS} if theirs else {"backend": backend, "options": options}
    return torch.compile(program, dynamic=dynamic, **chosen)


def _longer(drawn: Drawn) -> Drawn | None:
    """Returns the program on inputs of twice as many rows, if it has results for them; a sequence
    that follows itself is in order no more."""
    if any(step.text.startswith(IN_ORDER) for step in drawn.program.steps):
        return None
    wide = [torch.cat([x, x]) if x.dim() else x.clone() for x in drawn.inputs]
    other = Drawn(drawn.program, wide, [], [])
    try:
        for values, wide in ((other.low, False), (other.high, True)):
            values += other.copies(wide)
            for step in drawn.program.steps:
                values += step.function(*[values[p] for p in step.places])
    except Exception:
        return None
    return other


def _checked(run: Any, drawn: Drawn) -> str:
    """Returns what is wrong with the results and the inputs that a call has written."""
    inputs, kept = drawn.copies(), drawn.program.kept
    results = [*run(*inputs), *inputs]
    places = [*kept, *range(len(inputs))]
    return differences(results, *([v[k] for k in places] for v in (drawn.low, drawn.high)))


class _Trained(torch.nn.Module):
    def __init__(self, program: OperatorProgram) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return self.program(*[x.clone() for x in inputs])


def _gradients(run: Any, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    results = [y for y in run(*leaves) if y.is_floating_point() and y.requires_grad and y.numel()]
    if not results:
        return []
    total = sum(
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().double()
        for y in results
    )
    total.backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def failure(drawn: Drawn, mode: str, theirs: bool = False) -> str:
    """Returns what is wrong with a program: "refused: ..." if there is a clear error, or nothing;
    ``theirs``: by PyTorch's own compiler."""
    try:
        if mode == "exported":
            try:
                exported = torch.export.export(drawn.program, tuple(drawn.copies()), strict=False)
            except Exception:
                return "refused: PyTorch cannot export it"
            if theirs:
                model = exported.run_decompositions(decompositions()).module()
            else:
                model = lw.from_torch(exported, fallback=True, threads=1)
            inputs = drawn.copies()
            values = ([v[k] for k in drawn.program.kept] for v in (drawn.low, drawn.high))
            return differences(model(*inputs), *values)
        if mode == "trained":
            trained = _Trained(drawn.program)
            try:
                pair = [_gradients(trained, drawn.copies(wide)) for wide in (False, True)]
            except RuntimeError:
                return ""  # eager PyTorch has none
            if differences(pair[0], pair[0], pair[1]):
                return ""
            near = (
                torch.isclose(a.double(), b.double(), 3e-2, 3e-2, equal_nan=True).all()
                for a, b in zip(*pair)
            )
            if not all(near):
                return ""  # a rounding decides
            run = _compiled(trained, theirs=theirs)
            return differences(_gradients(run, drawn.copies()), *pair)
        run = _compiled(drawn.program, mode == "all sizes", theirs)
        text = _checked(run, drawn)
        longer = _longer(drawn) if mode == "all sizes" and not text else None
        return text if longer is None else _checked(run, longer)
    except lw.LoopwrightError as error:
        if not isinstance(error, lw.UnsupportedError):
            return f"{type(error).__name__}: {error}"
        return f"refused: {error.message} {' '.join(error.notes)}".replace("\n", " ")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{type(error).__name__}: {str(error)[:600]} ({Path(last.filename).name}:{last.lineno})"
        )


def report(seed: int) -> tuple[str, str]:
    torch.set_num_threads(1)
    drawn = draw_operators(seed)
    mode = MODES[seed % len(MODES)]
    used.clear()
    text = failure(drawn, mode)
    rows = " ".join(used)
    if text.startswith("refused"):
        return text[:120], rows
    if not text:
        return f"right, {mode}", rows
    if failure(drawn, mode, theirs=True):
        return "right, as PyTorch's compiler differs from eager", rows
    cut, why = drawn, text
    for n in range(1, len(drawn.program.steps)):
        steps = drawn.program.steps[:n]
        some = Drawn(OperatorProgram(drawn.program.count, steps), drawn.inputs, [], [])
        for values, wide in ((some.low, False), (some.high, True)):
            values += some.copies(wide)
            for step in steps:
                values += step.function(*[values[p] for p in step.places])
        some.program.kept = list(range(len(drawn.inputs), len(some.low))) or [0]
        why = failure(some, mode)
        if why and not why.startswith("refused"):
            cut = some
            break
    of = ", ".join(f"{x.dtype}{[*x.shape]} by {x.stride()}" for x in cut.inputs)
    return f"wrong, {mode}", f"seed {seed} {mode}: {text}\n{cut.program}\n  of {of}: {why}\n"


def main() -> int:
    warnings.simplefilter("ignore")
    low, high = map(int, sys.argv[1].split(":"))
    kinds: Counter[str] = Counter()
    rows: set[str] = set()
    for seed, kind, text in outcomes(low, high, report):
        kinds[kind] += 1
        if kind.startswith(("right", "refused")):
            rows |= set(text.split())
        else:
            print(text, flush=True)
        if seed % 100 == 99:
            print(f"-- {seed} {dict(kinds)}", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{high - low} programs; rows without a graph: {' '.join(sorted(ROWS.keys() - rows))}")
    return int(any(kind.startswith(("wrong", "crashed", "generator")) for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())
