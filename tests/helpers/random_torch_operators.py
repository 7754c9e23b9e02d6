"""Random programs of all of PyTorch's operators: those of its own database, with the arguments of
its samples, on values that earlier steps computed; views of them, and writes in place.

::

    operator   of ``op_db``, on a sample whose first tensor is an earlier value in another shape
    view       a part, another order of axes, an expansion of a value
    write      in place, to a value, which may be a view of others or of an input

Dtypes, sizes 0 and 1 and strides are those of samples and placements (``tools.torch_placements``).
Eager PyTorch computes each program in its dtypes and in double precision as it is drawn; steps that
it refuses, that are random or that a rounding decides are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from random_draw import RandomDraw
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db

from tools.torch_placements import PLACEMENTS, function_of

__all__ = ["OperatorProgram", "Drawn", "IN_ORDER", "differences", "draw_operators"]

DTYPES = {
    torch.float32: 8, torch.float64: 2, torch.int64: 3, torch.bool: 2, torch.int32: 1,
    torch.bfloat16: 2, torch.float16: 1, torch.complex64: 1, torch.uint8: 1,
}  # fmt: skip
"""How often an operator is drawn in each dtype."""

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
"""What is computed in the precise program instead."""

LEFT_OUT = (
    *("empty", "rand", "bernoulli", "multinomial", "normal", "dropout", "as_strided", "rrelu"),
    *("exponential", "cauchy", "geometric", "uniform", "fractional"),
)
"""Parts of names of operators whose results are random or uninitialised, or which read memory that
a wider tensor has not."""

UNORDERED = ("argsort", "kthvalue", "sort", "topk", "median", "mode", "msort")
"""Operators that leave the order of equal elements open."""

IN_ORDER = ("bucketize", "searchsorted", "nn.functional.embedding_bag")
"""Operators of a sequence in order, as offsets are; PyTorch leaves open what others give."""

MOST_ELEMENTS = 4000
NEAR = 3e-2
"""Relative difference of two precisions beyond which a rounding decides a result."""


@dataclass(frozen=True)
class Step:
    """A function of earlier values, by their places."""

    text: str
    function: Callable[..., Any]
    places: tuple[int, ...]


class OperatorProgram(nn.Module):
    """The steps in order; ``forward`` returns the values at ``kept``."""

    def __init__(self, count: int, steps: Sequence[Step] = (), kept: Sequence[int] = ()) -> None:
        super().__init__()
        self.count = count
        self.steps = list(steps)
        self.kept = list(kept)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        values: list[Any] = list(inputs)
        for step in self.steps:
            values += step.function(*[values[p] for p in step.places])
        return [values[k] for k in self.kept]

    def __str__(self) -> str:
        lines = [f"  {s.text}({', '.join(f'v{p}' for p in s.places)})" for s in self.steps]
        return "\n".join([*lines, f"  return {self.kept}"])


@dataclass
class Drawn:
    """A program, its inputs, and its values in both precisions, inputs first."""

    program: OperatorProgram
    inputs: list[Tensor]
    low: list[Tensor]
    high: list[Tensor]

    def copies(self, wide: bool = False) -> list[Tensor]:
        """Returns the inputs in memory of their own, that lies as theirs does."""
        return [_copy(x, WIDE.get(x.dtype, x.dtype) if wide else x.dtype) for x in self.inputs]


def _copy(x: Tensor, dtype: torch.dtype) -> Tensor:
    size = x.untyped_storage().nbytes() // x.element_size()
    memory = x.as_strided((size,), (1,), 0).to(dtype, copy=True)
    return memory.as_strided(x.shape, x.stride(), x.storage_offset())


def differences(given: Sequence[Any], low: Sequence[Tensor], high: Sequence[Tensor]) -> str:
    """Returns what is wrong with results, or nothing."""
    for n, (ours, theirs, right) in enumerate(zip(given, low, high, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"result {n}: {ours.dtype}{[*ours.shape]}, not {theirs.dtype}{[*theirs.shape]}"
        if not theirs.numel():
            continue
        if not (theirs.is_floating_point() or theirs.is_complex()):
            if not torch.equal(ours, theirs):
                return f"result {n} has other elements: {_few(ours)}, not {_few(theirs)}"
            continue
        a, b, c = map(_reals, (ours, theirs, right))
        finite = b.isfinite() & c.isfinite()
        if not torch.equal(torch.where(finite, 0, b).nan_to_num(7, 8, 9), torch.where(
            finite, 0, a).nan_to_num(7, 8, 9)):  # fmt: skip
            return f"result {n} has other nans or infinities: {_few(ours)}, not {_few(theirs)}"
        a, b, c = (torch.where(finite, x, 0) for x in (a, b, c))
        off, spread = ((x - c).abs().max().item() for x in (a, b))
        eps = torch.finfo(theirs.dtype).eps
        eps = max(eps, 1e-9)  # constants of eager kernels are of single precision at times
        allowed = 64 * spread + 100 * eps * c.abs().max().item() + 10 * eps
        if not off <= allowed:
            return f"result {n} is off by {off:.2e}, and may be by {allowed:.2e}: {_few(ours)}, not {_few(theirs)}"  # noqa: E501
    return ""


def _reals(x: Tensor) -> Tensor:
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).double()


def _few(x: Tensor) -> str:
    return str(x.flatten()[:6].tolist())


class _Operators:
    """A program in the making."""

    def __init__(self, seed: int) -> None:
        self.draw = RandomDraw(seed)
        self.pick, self.between = self.draw.pick, self.draw.between
        torch.manual_seed(seed)
        self.inputs: list[Tensor] = []
        self.steps: list[Step] = []
        self.low: list[Tensor] = []
        self.high: list[Tensor] = []

    def chance(self, percent: int) -> bool:
        return self.between(1, 100) <= percent

    def operator(self) -> bool:
        """Adds an operator of the database on one of its samples; returns if it fits."""
        op = self.pick(op_db)
        own = [x.dtype for x in self.low if x.dtype in op.dtypes and x.dtype in DTYPES]
        some = [d for d, often in DTYPES.items() for _ in range(often) if d in op.dtypes]
        if not some or any(part in op.name for part in LEFT_OUT):
            return False
        dtype = self.pick(own) if own and self.chance(60) else self.pick(some)
        samples = op.sample_inputs("cpu", dtype, requires_grad=False)
        sample = next(itertools.islice(samples, self.between(0, 7), None), None)
        if sample is None:
            return False
        function, written = op.op, False
        if op.inplace_variant is not None and self.chance(20):
            function, written = op.inplace_variant, True
        flat, tensors = function_of(function, (sample.input, sample.args, sample.kwargs), False)
        unordered = any(part in op.name for part in UNORDERED)
        as_drawn = unordered or op.name in IN_ORDER
        if unordered and any(t.unique().numel() < t.numel() for t in tensors[:1]):
            return False
        places, fits, new = [], [], []
        kind = self.pick(list(PLACEMENTS) + ["contiguous"] * 5)
        for n, tensor in enumerate(tensors):
            if tensor.layout != torch.strided or tensor.numel() > MOST_ELEMENTS:
                return False
            same = [k for k, v in enumerate(self.low) if v.dtype == tensor.dtype and v.numel()]
            exact = [k for k in same if self.low[k].shape == tensor.shape]
            if exact and self.chance(50) and not as_drawn:
                k, shape = self.pick(exact), None
            elif n == 0 and same and not as_drawn and self.chance(75):
                k, shape = self.pick(same), tensor.shape
            else:
                k, shape = len(self.inputs) + len(new), None
                k = -1 - len(new)
                new.append(PLACEMENTS[kind](tensor.detach()))
            places.append(k)
            fits.append(shape)

        def step(*values: Tensor) -> list[Tensor]:
            results = flat(*[_fitted(v, s) for v, s in zip(values, fits)])
            return list(results)

        name = f"{op.name}{'.' * bool(op.variant_test_name)}{op.variant_test_name}"
        text = f"{name}{'_' * written} {dtype} {[tuple(s) for s in fits if s is not None]}"
        return self.enter(text, step, places, new)

    def view(self) -> bool:
        n = self.between(0, len(self.low) - 1)
        x = self.low[n]
        if not x.dim():
            return False
        axis, other = self.between(0, x.dim() - 1), self.between(0, x.dim() - 1)
        size = x.shape[axis]
        low, step = self.between(0, max(0, size - 1)), self.pick((1, 1, 2))
        functions: dict[str, Callable[[Tensor], Tensor]] = {
            "transpose": lambda v: v.transpose(axis, other),
            "slice": lambda v: v.narrow(axis, low, size - low)[..., ::step],
            "empty": lambda v: v.narrow(axis, low, 0),
            "one": lambda v: v.narrow(axis, low, 1),
            "select": lambda v: v.select(axis, low),
            "expand": lambda v: v.unsqueeze(axis).expand(*v.shape[:axis], 2, *v.shape[axis:]),
            "flatten": lambda v: v.flatten(),
            "unfold": lambda v: v.unfold(axis, max(1, size // 2), step),
            "diagonal": lambda v: v.diagonal(0, axis, other),
            "squeeze": lambda v: v.squeeze(),
            "chunk": lambda v: v.chunk(2, axis)[-1],
            "conj": lambda v: v.conj(),
        }
        kind = self.pick(list(functions))
        return self.enter(
            f"{kind} {axis} {other} {low} {step}", lambda v: [functions[kind](v)], [n]
        )

    def write(self) -> bool:
        n = self.between(0, len(self.low) - 1)
        x = self.low[n]
        same = [k for k, v in enumerate(self.low) if v.dtype == x.dtype and v.numel()]
        if not x.numel() or not same:
            return False
        m = self.pick(same)
        index = torch.arange(0, x.shape[0], 2) if x.dim() else torch.tensor(0)

        def from_other(v: Tensor, w: Tensor) -> Tensor:
            return _fitted(w, v.shape)

        functions: dict[str, Callable[[Tensor, Tensor], Any]] = {
            "copy_": lambda v, w: v.copy_(from_other(v, w)),
            "add_": lambda v, w: v.add_(from_other(v, w)),
            "mul_": lambda v, w: v.mul_(2),
            "fill_": lambda v, w: v.fill_(1),
            "zero_": lambda v, w: v.zero_(),
            "masked_fill_": lambda v, w: v.masked_fill_(from_other(v, w) == 0, 2),
            "set row": lambda v, w: v.__setitem__(0, 1),
            "set rows": lambda v, w: v.__setitem__(index, from_other(v, w)[index]),
            "set slice": lambda v, w: v[..., ::2].copy_(from_other(v, w)[..., ::2]),
            "index_add_": lambda v, w: v.index_add_(0, index, from_other(v, w)[index]),
            "index_put_": lambda v, w: v.index_put_((index,), v[index] * 2, accumulate=True),
            "swapped": lambda v, w: v.copy_(v.flip(0)),
            "neg_": lambda v, w: v.neg_(),
        }
        kind = self.pick(list(functions))

        def step(v: Tensor, w: Tensor) -> list[Tensor]:
            functions[kind](v, w)
            return []

        return self.enter(kind, step, [n, m])

    def enter(
        self, text: str, function: Any, places: Sequence[int], new: Sequence[Tensor] = ()
    ) -> bool:
        """Adds a step if the program with it is sound in both precisions; ``places`` below 0 are
        those of the inputs that it brings."""
        shift = len(new)
        count = len(self.inputs)

        def moved(place: int) -> int:
            return count - 1 - place if place < 0 else place + shift * (place >= count)

        earlier = [Step(s.text, s.function, tuple(map(moved, s.places))) for s in self.steps]
        steps = [*earlier, Step(text, function, tuple(map(moved, places)))]
        inputs = [*self.inputs, *new]
        drawn = Drawn(OperatorProgram(len(inputs), steps), inputs, [], [])
        try:
            runs = []
            for wide, seed in ((False, 0), (False, 1), (True, 0)):
                torch.manual_seed(seed)
                values = drawn.copies(wide)
                for step in steps:
                    values += step.function(*[values[p] for p in step.places])
                runs.append(values)
        except Exception:
            return False
        if not all(map(_sound, *runs)) or any(x._version and _overlaps(x) for x in runs[0]):
            return False  # PyTorch's graphs do not write where elements overlap
        self.inputs, self.steps, self.low, self.high = inputs, steps, runs[0], runs[2]
        return True


def _overlaps(x: Tensor) -> bool:
    return bool(torch._debug_has_internal_overlap(x))


def _fitted(x: Tensor, shape: Any) -> Tensor:
    """Returns the elements of ``x`` in another shape, repeated or left out."""
    if shape is None or x.shape == shape:
        return x
    count = math.prod(shape)
    flat = x.reshape(-1)
    if flat.shape[0] < count:
        flat = flat.repeat(-(-count // flat.shape[0]))
    return flat[:count].reshape(shape)


def _sound(low: Tensor, twice: Tensor, high: Tensor) -> bool:
    shapes = low.shape == high.shape and low.layout == torch.strided and low.numel() <= 20_000
    if not shapes or low.dtype not in DTYPES | {torch.complex128: 1, torch.int8: 1, torch.int16: 1}:
        return False
    if not (low.is_floating_point() or low.is_complex()):
        return torch.equal(low, high) and torch.equal(low, twice)
    low, twice, high = map(_reals, (low, twice, high))
    if not torch.allclose(low, twice, 0, 0, equal_nan=True):
        return False
    near = torch.isclose(low, high, NEAR, NEAR, equal_nan=True)
    return bool(near.all()) and bool((high.isinf() | high.isnan() | (high.abs() < 1e4)).all())


def draw_operators(seed: int, most: int = 6) -> Drawn:
    """Returns a program of up to ``most`` steps."""
    made = _Operators(seed)
    count = made.between(1, most)
    for _ in range(8 * count):
        if len(made.steps) == count:
            break
        kind = made.between(0, 9) if made.low else 0
        made.operator() if kind < 6 else made.view() if kind < 8 else made.write()
    first = len(made.inputs)
    read = {p for step in made.steps for p in step.places}
    kept = [n for n in range(first, len(made.low)) if n not in read or made.chance(25)]
    kept = kept or [*range(first, len(made.low))] or [0]
    program = OperatorProgram(first, made.steps, kept)
    return Drawn(program, made.inputs, made.low, made.high)
