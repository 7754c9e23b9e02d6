"""``lw.debug.compare``: the first operation whose compiled result is wrong.

::

    steps    the program kernel by kernel, on its own memory: which kernel is wrong, given what it
             was really handed                                 (steps.py)
    within   which operation of that kernel, and which level   (within.py)
    whole    the native entry against the kernels one by one
    graph    the graph that was compiled against the traced one, pass by pass   (graph.py)

Every kernel is judged by itself, on what the code before it gave, so that errors which are allowed
do not add up to one that is not. Those inside of loops are judged in every iteration.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..autotune.measure.reference import error_bound
from ..autotune.selection.select import Origin
from ..autotune.space.space import plain_schedule
from ..codegen.kernel import compile_kernel
from ..codegen.one_kernel import run_kernel
from ..driver.built import Built, Parts, Source
from ..driver.pipeline import known_operands
from ..face.compiled_function import CompiledFunction
from ..face.user_errors import for_user
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError, UnsupportedError
from ..ir.graph.evaluate import evaluate
from ..ir.graph.nodes import Binding, Call, Constant, Var
from ..ir.graph.operator import Operator
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.cases import Cases
from ..ir.span import Span
from ..tracer import Traced
from .difference import Difference, difference
from .graph import wrong_pass
from .steps import Iteration, Step, Steps, Strayed, lines_of
from .wide import TooLongError, flat, result_of, values_of
from .within import Checked, Group, check_operation, levels, operations

MOST_JUDGED = 5000
"""Kernel calls that are looked at one by one, each some ms: a program with loops has many."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The first wrong operation. ``what`` is a sentence about it; ``operator``, ``span``,
    ``operands`` and ``result`` identify it in the user's program (the last one of the kernel where
    no single one is to blame), ``notes`` say where and at which level.
    ``iterations`` are those of the loops around it in which it was seen first, the innermost
    last.

    >>> lw.debug.compare(lw.compile(np.exp), np.ones(3)).finding is None
    True
    """

    what: str
    operator: str
    span: Span | None
    operands: tuple[str, ...]
    result: str
    difference: Difference
    kernel: str = ""
    notes: tuple[str, ...] = ()
    iterations: tuple[Iteration, ...] = ()

    def __str__(self) -> str:
        lines = [self.what, *lines_of(self.span, self.iterations)]
        if self.operator:
            lines.append(f"  {self.operator}({', '.join(self.operands)}) -> {self.result}")
        lines.append(f"  {self.difference}")
        if self.difference.span:
            box = ", ".join(f"{a}..{b}" if a != b else str(a) for a, b in self.difference.span)
            lines.append(f"  all of them in [{box}]")
        lines += [f"    {place}" for place in self.difference.places]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class OperationError:
    """The error of one operation; for a whole kernel, ``operator`` names all its operations.

    >>> lw.debug.compare(lw.compile(np.exp), np.ones(3)).errors[0].operator
    'exp'
    """

    operator: str
    kernel: str
    span: Span | None
    difference: Difference

    def __str__(self) -> str:
        where = f"   {self.span}" if self.span is not None else ""
        return f"{self.operator}: {self.difference}{where}"


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The outcome. ``finding`` is None where nothing differs. ``errors`` are those of the kernels
    in the order in which they ran first, or of each operation if ``each`` was given, the greatest
    of all iterations; ``results`` those of the function's results against the traced graph in
    float64. ``left_out`` says in words what was not looked at, for want of time.

    >>> lw.debug.compare(lw.compile(np.exp), np.ones(3)).finding is None
    True
    """

    name: str
    kernels: int
    finding: Finding | None
    errors: tuple[OperationError, ...]
    results: tuple[Difference, ...]
    left_out: str = ""

    @property
    def differs(self) -> bool:
        """True if anything is wrong."""
        return self.finding is not None

    def __str__(self) -> str:
        if self.finding is not None:
            return f"{self.name}: {self.finding}"
        worst = max((d.error for d in self.results), default=0.0)
        plural = "" if self.kernels == 1 else "s"
        head = f"{self.name}: no difference in {self.kernels} kernel{plural}" + (
            f"; its results are within {worst:.2g} of those in float64" if self.results else ""
        )
        left_out = [f"  {self.left_out}"] if self.left_out else []
        return "\n".join([head, *(f"  {e}" for e in self.errors), *left_out])


def compare(
    function: Callable[..., Any], *args: Any, each: bool = False, **kwargs: Any
) -> Comparison:
    """Finds the first operation of a function whose compiled result is wrong on these arguments.

    The code that is in use is looked at, with the schedules that it has; results are held against
    NumPy in float64, with the tolerances that tuning accepts kernels by. ``each`` also tells the
    error of each operation (otherwise of each kernel). The code runs in this process: what makes it
    crash does so here, too. LoopwrightIndexError for an index that lies outside of its axis, which
    compiled code clips.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> f = lw.compile(lambda x: np.sqrt(x) + 1)
    >>> found = lw.debug.compare(f, np.ones(8, np.float32))
    >>> found.differs
    False
    """
    compiled, args = as_compiled(function, args, "compare")
    try:
        _check_indices(*compiled.traced_with_checks(args, kwargs))
        lowered, arrays = compiled.in_use(*args, **kwargs)
    except Exception as error:
        reported = for_user(error)
    else:
        return compare_build(lowered.traced.name, lowered.built, arrays, each=each)
    raise reported


def _check_indices(traced: Traced, arrays: list[Array] | None) -> None:
    """Raises an error for an index that the compiled code clips and NumPy would refuse."""
    if traced.has_checks and arrays is not None:
        evaluate(traced.module, *arrays)


def as_compiled(
    function: Callable[..., Any], args: tuple[Any, ...], asked: str
) -> tuple[CompiledFunction, tuple[Any, ...]]:
    """Returns the compiled function behind the argument of ``lw.debug.<asked>``, and its arguments:
    a bound method's object is the first. Raises LoopwrightTypeError if it is not callable."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, CompiledFunction):
        function, args = function.__func__, (function.__self__, *args)
    if not callable(function):
        raise LoopwrightTypeError(f"lw.debug.{asked} takes a function, not {function!r}")
    compiled = function if isinstance(function, CompiledFunction) else CompiledFunction(function)
    return compiled, args


def compare_build(
    name: str, built: Built, arrays: list[Array], *, each: bool = False
) -> Comparison:
    """Returns the comparison of a build with its reference, on the arrays that it takes."""
    if built.parts is None or built.source is None:
        raise UnsupportedError("this build does not say what it is made of")
    arrays = [np.array(a, order="C") for a in arrays]
    judge = _Judge(built, built.parts, built.source, each)
    steps = Steps(built.parts, built.source, arrays)
    finding: Finding | None = None
    left_out = ""
    for number, step in enumerate(steps):
        if number >= MOST_JUDGED:
            left_out = f"only the first {MOST_JUDGED} kernel calls were looked at one by one"
            break
        finding = finding or (
            judge.strayed(step) if isinstance(step, Strayed) else judge.step(step)
        )
        if finding is not None and not each:
            return Comparison(name, len(built.kernels), finding, judge.worst, ())
    if not left_out:
        finding = finding or judge.outputs(steps, arrays)
    try:
        results = _results(built, arrays, built.call(arrays), judge.total)
        finding = finding or _of_graph(built, arrays, judge.total)
    except TooLongError as error:
        results, left_out = (), left_out or f"results are not compared: {error.message}"
    return Comparison(name, len(built.kernels), finding, judge.worst, results, left_out)


def _results(
    built: Built, arrays: list[Array], results: list[Array], bound: float
) -> tuple[Difference, ...]:
    """Returns the differences of results from those of the traced graph."""
    assert built.source is not None
    module = built.source.module
    main = module.main
    right, rough = (
        flat(result_of(main, values_of(main, arrays, module, wide=wide), wide=wide))
        for wide in (True, False)
    )
    return tuple(
        difference(got, want, other, bound) for got, want, other in zip(results, right, rough)
    )


class _Judge:
    """Judges steps in order; ``total`` is the error that all kernels together may have."""

    def __init__(self, built: Built, parts: Parts, source: Source, each: bool) -> None:
        self.built, self.parts, self.source, self.each = built, parts, source, each
        self._errors: dict[tuple[object, ...], OperationError] = {}
        self.total = 0.0
        self._known = known_operands(source.lowered)

    @property
    def worst(self) -> tuple[OperationError, ...]:
        """The greatest error of each kernel or operation in any iteration."""
        return tuple(self._errors.values())

    def _note(self, step: Step, errors: Sequence[OperationError]) -> None:
        for number, error in enumerate(errors):
            key = id(step.binding), number
            before = self._errors.get(key)
            if before is None or _badness(error.difference) > _badness(before.difference):
                self._errors[key] = error

    def strayed(self, strayed: Strayed) -> Finding:
        what = (
            "a condition was written over before it was read: the program shares memory that it "
            "may not share"
        )
        off = Difference(1, 1, np.inf, 0.0)
        described = _described(strayed.binding)
        return Finding(what, *described, off, iterations=strayed.where)

    def step(self, step: Step) -> Finding | None:
        prim = self.parts.prims[step.name]
        schedule = self.built.chosen[step.name].schedule
        assert not isinstance(schedule, Cases)  # there is nothing to decide at constant sizes
        bound = error_bound(prim, prim.output_buffers[0].dtype)
        self.total += bound
        constant, causal = self._known[step.name]
        group = Group.of(
            step.name,
            step.group,
            step.inputs,
            (frozenset(constant), causal),
            schedule,
            (self.parts.target, self.parts.threads),
            self.source.lowered,
        )
        if step.spoilt:
            return self._spoilt(step)
        right = flat(result_of(step.group, group.exact, wide=True))
        narrow = flat(result_of(step.group, group.narrow, wide=False))
        differences = [
            difference(got, want, rough, error_bound(prim, buffer.dtype))
            for got, want, rough, buffer in zip(step.outputs, right, narrow, prim.output_buffers)
        ]
        worst = max(differences, key=_badness)
        checked: list[Checked] = []
        if self.each or worst.differs:
            for binding in operations(group):
                one = check_operation(group, binding)
                checked += [one] if one is not None else []
                if one is not None and one.difference.differs and not self.each:
                    break
        whole = OperationError(_names(step), step.name, step.binding.var.span, worst)
        each = [_operation_error(c, step.name) for c in checked]
        self._note(step, each if self.each else [whole])
        if not worst.differs:
            return None
        blamed = next((c for c in checked if c.difference.differs), None)
        return self._finding(step, group, worst, blamed, right[differences.index(worst)])

    def _finding(
        self, step: Step, group: Group, worst: Difference, blamed: Checked | None, right: Array
    ) -> Finding:
        prim, kernel = self.parts.prims[step.name], self.parts.kernels[step.name]
        inputs = {b.name: a for b, a in zip(prim.params, step.inputs)}
        last = [*operations(group)][-1]
        binding = blamed.binding if blamed is not None else last
        number = 1 + [*self.parts.prims].index(step.name)
        notes = [
            f"kernel    {step.name} ({number} of {len(self.parts.prims)}): {_names(step)}",
            f"schedule  {self._schedule(step.name)}",
        ]
        if blamed is not None and binding is not last:
            notes.append(f"seen      in a kernel that ends with it, {blamed.how}")
        if blamed is None and self._right_alone(step.name, inputs, right):
            what = (
                f"memory of the kernel {step.name} was written over before it was read, by the "
                "kernel itself: the program shares memory that it may not share"
            )
        elif blamed is None:
            what = (
                f"the kernel {step.name} is wrong, though all its operations by themselves are not"
            )
        else:
            what = f"{_operator(binding)} is the first operation that is wrong"
        if len(prim.outputs) == 1:
            notes.append(f"level     {levels(prim, kernel, inputs, right)}")
        notes.append(f"plain     {self._plain(prim, inputs, right)}")
        off = worst if binding is last or blamed is None else blamed.difference
        return Finding(what, *_described(binding), off, step.name, tuple(notes), step.where)

    def _schedule(self, name: str) -> str:
        chosen = self.built.chosen[name]
        log = self.source.log
        where = chosen.origin.text
        took = f", measured {chosen.seconds * 1e6:.4g} us" if chosen.seconds else ""
        logged = chosen.origin in (Origin.EXACT, Origin.COMPATIBLE, Origin.NEAR)
        named = f" ({log})" if log is not None and logged else ""
        return f"{where}{named}, sketch {chosen.sketch}{took}"

    def _right_alone(self, name: str, inputs: dict[str, Array], right: Array) -> bool:
        """True if a kernel is right when it runs on memory of its own."""
        prim, kernel = self.parts.prims[name], self.parts.kernels[name]
        outputs = run_kernel(kernel, inputs, self.parts.target, self.parts.threads)
        bound = error_bound(prim, prim.output_buffers[0].dtype)
        fits = [f.reshape(right.shape) for f in outputs if f.size == right.size]
        return any(not difference(f, right, right, bound).differs for f in fits)

    def _plain(self, prim: PrimFunc, inputs: dict[str, Array], right: Array) -> str:
        """Returns in words whether the kernel is right without its schedule."""
        try:
            target = self.parts.target
            plain = plain_schedule(prim, target)
            kernel = compile_kernel(prim, plain, target, f"lw_plain_{prim.name}")
            outputs = run_kernel(kernel, inputs, self.parts.target, self.parts.threads)
        except Exception as error:
            return f"without a schedule it cannot be made: {type(error).__name__}: {error}"
        bound = error_bound(prim, prim.output_buffers[0].dtype)
        fits = [f for f in outputs if f.size == right.size]
        wrong = all(difference(f.reshape(right.shape), right, right, bound).differs for f in fits)
        return f"without a schedule it is {'wrong, too' if wrong else 'right'}"

    def _spoilt(self, step: Step) -> Finding:
        n = step.spoilt[0]
        call = step.binding.value
        assert isinstance(call, Call)
        what = (
            f"operand {n} of the kernel {step.name} was written over before it was read: the "
            "program shares memory that it may not share"
        )
        off = Difference(step.inputs[n].size, step.inputs[n].size, np.inf, 0.0)
        return Finding(what, *_described(step.binding), off, step.name, (), step.where)

    def outputs(self, steps: Steps, arrays: list[Array]) -> Finding | None:
        """Compares results in memory with what kernels wrote, and the native entry with both."""
        main = self.source.lowered.main
        result = main.body.result
        span = result.span
        for n, (got, wanted) in enumerate(zip(steps.results, steps.expected(), strict=True)):
            off = difference(got, wanted.reshape(got.shape), wanted.reshape(got.shape), 0.0)
            if off.differs:
                what = f"result {n} was written over after its kernel had made it"
                return Finding(what, "", span, (), str(result.type), off)
        for n, (got, wanted) in enumerate(zip(self.built.call(arrays), steps.results, strict=True)):
            off = difference(got, wanted, wanted, 2 * self.total)
            if off.differs:
                what = f"result {n} of a whole call differs from its kernels called one by one"
                return Finding(what, "", span, (), str(result.type), off)
        return None


def _of_graph(built: Built, arrays: list[Array], bound: float) -> Finding | None:
    changed = wrong_pass(built, arrays, bound)
    if changed is None:
        return None
    what = f"the pass {changed.name} changes what is computed: all kernels do what it made of it"
    binding = changed.binding
    described = _described(binding) if binding is not None else ("", None, (), "")
    return Finding(what, *described, changed.difference)


def _badness(difference: Difference) -> tuple[int, float]:
    return difference.wrong, difference.error


def _operation_error(checked: Checked, kernel: str) -> OperationError:
    return OperationError(
        _operator(checked.binding), kernel, checked.binding.var.span, checked.difference
    )


def _names(step: Step) -> str:
    calls = (b.value for b in step.group.body.bindings)
    return ", ".join(c.op.name for c in calls if isinstance(c, Call))


def _operator(binding: Binding) -> str:
    call = binding.value
    return call.op.name if isinstance(call, Call) else type(call).__name__


def _described(binding: Binding) -> tuple[str, Span | None, tuple[str, ...], str]:
    """Returns operator, span, operands and result of a binding, as a finding shows them."""
    call = binding.value
    args = tuple(_operands(call)) if isinstance(call, Call) else ()
    kind = binding.var.type
    result = getattr(kind, "short", str(kind))
    name = call.op.name if isinstance(call, Call) and isinstance(call.op, Operator) else ""
    return name, binding.var.span, args, result


def _operands(call: Call) -> Iterator[str]:
    for atom in call.args:
        if isinstance(atom, Constant) and atom.value.size == 1:
            yield str(atom.value.reshape(()).item())
        elif isinstance(atom, Var | Constant):
            yield f"{atom.name or 'constant'}: {getattr(atom.type, 'short', atom.type)}"
