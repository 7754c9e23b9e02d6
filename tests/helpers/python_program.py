"""Programs of Python text, what they do when Python runs them and compiled, and where that differs.

A program is a module, a function in it, and a scenario: calls with arguments, and statements
between them that change what the function captures. ``verdict`` runs it twice, as it stands and
with the function compiled; after every call its results, its arguments and everything outside must
be the same. Whatever raises in Python has to raise when compiled; what is refused is no mistake.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import loopwright as lw
import numpy as np
from random_control import Group, Statement

__all__ = ["ARGUMENTS", "DTYPES", "MUTATIONS", "Program", "Type", "smaller", "verdict"]

Type: TypeAlias = tuple[str, tuple[Any, ...]]
"""A letter of ``DTYPES`` and a shape, in which ``"?"`` is a size that data decides."""

DTYPES = {
    "f": "float64",
    "g": "float32",
    "h": "float16",
    "i": "int64",
    "u": "uint8",
    "s": "int8",
    "b": "bool",
    "c": "complex128",
}
ARGUMENTS: dict[str, Type] = {
    "n": ("i", ()),
    "m": ("i", ()),
    "x": ("f", ()),
    "a": ("f", (6,)),
    "d": ("f", (6,)),
    "k": ("i", (4,)),
    "p": ("f", (3, 4)),
    "g": ("g", (6,)),
    "u": ("u", (6,)),
    "s": ("s", (4,)),
    "h": ("h", (6,)),
    "c": ("c", (4,)),
    "t": ("b", (6,)),
}
OUTSIDE = """
W = np.array([0.5, -1.0, 2.0, 1.5, 0.0, -0.5])
I = np.array([3, 0, 2, 1])
R = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
R.flags.writeable = False
G = 1.5
FLAG = True
cfg = {"scale": 2.0, "deep": {"w": np.array([1.0, 2.0])}, "names": ["p", "q"]}
ws = [np.array([1.0, -1.0, 0.5, 0.0, 2.0, 3.0]), np.array([2.0, 0.5])]
log = []
stock = [5, 7, 9, 11]
numbers = iter([3, 1, 4, 1, 5, 9])
rng = np.random.default_rng(3)
class Layer:
    bias = 0.25
    def __init__(self, w):
        self.w = w
        self.gain = 2.0
        self.calls = 0
    def __call__(self, v):
        return v * self.gain + self.w[0] + self.bias
    def counted(self, v):
        self.calls += 1
        return v + self.calls
layer = Layer(np.array([0.5, 1.0, -2.0, 0.0, 1.0, 4.0]))
net = [Layer(np.array([1.0])), Layer(np.array([-1.0]))]
def helper(v, by=0.5):
    return v * by + cfg["scale"]
def other(v, by=0.5):
    return v - by
def outer():
    w = np.array([1.0, 3.0])
    def inner(v):
        return v * w[0] + w[1]
    def change(value):
        w[0] = value
    return inner, change
inner, change = outer()
""".strip()

MUTATIONS = (
    *("W[2] = 7.0", "W[:] = W[::-1].copy()", "W += 1.0", "W = np.array([3.0] * 6)", "I[0] = 1"),
    *("I = np.array([1, 1, 0, 2])", "G = -2.0", "G += 1", "FLAG = not FLAG", "W.sort()"),
    *(
        "cfg['scale'] = -1.0",
        "cfg['deep']['w'][1] = 9.0",
        "cfg['deep'] = {'w': np.array([4.0, 5.0])}",
    ),
    *("cfg['names'].append('r')", "ws[0] = np.array([9.0] * 6)", "ws[0][5] = -4.0", "ws.reverse()"),
    *("ws.append(np.array([1.0]))", "Layer.bias = 3.0", "layer.w = np.array([8.0] * 6)"),
    *(
        "layer.w[0] = 6.0",
        "layer.gain = 0.5",
        "layer = Layer(np.array([2.0] * 6))",
        "helper = other",
    ),
    *(
        "helper.__defaults__ = (2.0,)",
        "change(5.0)",
        "net[1].gain = -3.0",
        "net.pop()",
        "net = net[::-1]",
    ),
    *(
        "Layer.__call__ = lambda self, v: v - self.bias",
        "layer.bias = -9.0",
        "del layer.gain; layer.gain = 4.0",
    ),
    *("net[0].w = layer.w", "stock.append(2)", "log.clear()", "inner, change = outer()"),
)


@dataclass
class Program:
    """Statements of the function, the scenario, and how the function is compiled."""

    body: Group
    scenario: list[str]
    kind: str = "function"

    def __str__(self) -> str:
        names = ", ".join(ARGUMENTS)
        lines = [OUTSIDE, f"def program({names}):", *self.body.text()]
        if self.kind == "method":
            lines += ["class Holder:", "    def run(self, *args):", "        return program(*args)"]
            lines += ["run = compiled(Holder().run)"]
        elif self.kind == "dynamic":
            lines += [
                "run = compiled(program, dynamic={'a': {0: 'r'}, 'd': {0: 'r'}, 't': {0: 'r'}})"
            ]
        else:
            lines += ["run = compiled(program)"]
        return "\n".join([*lines, *(f"#: {step}" for step in self.scenario)])


def arguments(seed: int) -> list[Any]:
    """New arguments, the same each time: small dyadic numbers, and limits of the dtypes."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for kind, shape in ARGUMENTS.values():
        if kind == "i":
            value: Any = rng.integers(-2, 7, shape)
        elif kind in "us":
            value = rng.choice([0, 1, 2, 7, 100, 127, 255 if kind == "u" else -128], shape)
        elif kind == "b":
            value = rng.random(shape) < rng.choice([0.0, 0.5, 0.5, 1.0])
        elif kind == "h":
            value = rng.choice([0.0, 1.0, -2.5, 60000.0, 0.25], shape)
        elif kind == "c":
            value = rng.integers(-4, 5, shape) / 2 + 1j * rng.integers(-4, 5, shape) / 2
        else:
            value = rng.integers(-8, 9, shape) / 4
        array = np.asarray(value).astype(DTYPES[kind])
        made.append(array if shape else array.item())
    return made


@dataclass
class Outcome:
    """What one call did: an error or results, and the values of everything it could change."""

    error: BaseException | None = None
    results: list[Any] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)


def outcomes(program: Program, compiled: Callable[..., Any]) -> Iterator[Outcome]:
    """Runs the scenario; ``compiled`` takes the function and options, returns what is called."""
    text = str(program)
    filename = f"<python {abs(hash(text))}>"
    linecache.cache[filename] = (len(text), None, [f"{t}\n" for t in text.split("\n")], filename)
    scope: dict[str, Any] = {"np": np, "lw": lw, "compiled": compiled, "__name__": "a_program"}
    exec(compile(text, filename, "exec"), scope)
    for step in program.scenario:
        if not step.startswith("call "):
            exec(step, scope)
            continue
        seed = int(step.removeprefix("call "))
        given = arguments(seed)
        if program.kind == "dynamic":
            size = 4 + seed % 4
            given = [
                np.resize(v, size) if np.shape(v) == (6,) and i in (3, 4, 12) else v
                for i, v in enumerate(given)
            ]
        try:
            results = scope["run"](*given)
            outcome = Outcome(None, [_value(r) for r in results])
        except Exception as error:
            outcome = Outcome(error)
        state = {f"argument {n}": np.array(v) for n, v in zip(ARGUMENTS, given)}
        outcome.state = state | {n: _value(scope[n]) for n in _STATE}
        yield outcome


_STATE = ("W", "I", "R", "G", "FLAG", "cfg", "ws", "log", "stock", "rng", "layer", "net", "numbers")


class _Number(np.ndarray[Any, Any]):
    """A number of Python's."""


def _value(value: Any) -> Any:
    """A copy that can be compared."""
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    if isinstance(value, int | float | complex):
        return np.array(value).view(_Number)
    if isinstance(value, dict):
        return {k: _value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if type(value).__name__ == "Layer":
        return {k: _value(v) for k, v in vars(value).items()}
    if hasattr(value, "__length_hint__"):
        return value.__length_hint__()
    return deepcopy(value) if value is None or isinstance(value, str) else repr(type(value))


def difference(got: Any, wanted: Any, at: str) -> str:
    """Says where two copies differ, nothing if they do not."""
    if isinstance(wanted, dict) and isinstance(got, dict) and got.keys() == wanted.keys():
        return next((d for k in wanted if (d := difference(got[k], wanted[k], f"{at}.{k}"))), "")
    if isinstance(wanted, list) and isinstance(got, list) and len(got) == len(wanted):
        pairs = enumerate(zip(got, wanted))
        return next((d for n, (g, w) in pairs if (d := difference(g, w, f"{at}[{n}]"))), "")
    if isinstance(wanted, np.ndarray) and isinstance(got, np.ndarray):
        return _array_difference(got, wanted, at)
    return "" if type(got) is type(wanted) and got == wanted else f"{at} is {got!r}, not {wanted!r}"


_LOOSE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-9, "complex64": 1e-5, "complex128": 1e-9}


def _array_difference(got: Any, wanted: Any, at: str) -> str:
    if isinstance(wanted, _Number) and got.dtype == np.result_type(got, wanted.item()):
        wanted = wanted.astype(got.dtype)  # it met a NumPy number in another branch
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{at} is {got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    loose = _LOOSE.get(str(wanted.dtype), 0)
    finite = np.abs(wanted[np.isfinite(wanted)]) if loose and wanted.size else np.zeros(1)
    size = float(finite.max(initial=1.0))
    if wanted.dtype == np.float16:  # computed in float32, which does not overflow
        wanted = np.where(np.isfinite(wanted), wanted, got)
    with np.errstate(all="ignore"):
        same = np.allclose(got, wanted, loose, loose * size, equal_nan=True)
    return "" if same else f"{at} is {got.tolist()}, not {wanted.tolist()}"


def verdict(program: Program, compiler: Callable[..., Any]) -> tuple[str, str]:
    """Returns how a program ended: right, refused, raised in both, exempt or wrong; and why."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        # Mutations between calls may fail in a program that Python itself does not finish.
        eager = outcomes(program, lambda function, **_: function)
        traced = outcomes(program, compiler)
        for number, step in enumerate(s for s in program.scenario if s.startswith("call ")):
            try:
                wanted = next(eager)
            except StopIteration:
                break
            except Exception as error:
                return "generator", repr(error)
            got = next(traced)
            where = f"call {number} ({step})"
            if isinstance(wanted.error, OverflowError) and got.error is None:
                return "exempt", "a Python int of more than 64 bits"
            if isinstance(wanted.error, lw.LoopwrightTypeError) and got.error is None:
                return "exempt", "a Python number with which a loop begins"
            if wanted.error is not None and got.error is not None:
                return "raised in both", f"{type(wanted.error).__name__}: {wanted.error}"
            if wanted.error is not None:
                return "wrong", f"{where} finishes; Python: {wanted.error!r}"
            if got.error is not None:
                text = (str(got.error).splitlines() or [""])[0]
                known = isinstance(got.error, lw.LoopwrightError)
                kind = type(got.error).__name__
                internal = not known or isinstance(got.error, lw.InternalError)
                return ("wrong", f"{where}: {kind}: {text}") if internal else ("refused", text)
            if found := difference(got.results, wanted.results, f"{where}: result"):
                return "wrong", found
            if found := difference(got.state, wanted.state, f"{where}: outside"):
                return "wrong", found
    return "right", ""


def smaller(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Returns the program with as much left out as still fails."""
    improved = True
    while improved:
        improved = False
        for number in reversed(range(len(program.scenario))):
            step = program.scenario.pop(number)
            if fails(program):
                improved = True
            else:
                program.scenario.insert(number, step)
        for group in list(_groups(program.body)):
            for number in reversed(range(len(group.statements) - 1)):
                statement = group.statements.pop(number)
                if fails(program):
                    improved = True
                else:
                    group.statements.insert(number, statement)
        last = program.body.statements[-1]
        text = last.parts[0]
        assert isinstance(text, str)
        names = text.removeprefix("return ").strip("()").replace(",", " ").split()
        for name in list(names):
            kept = [n for n in names if n != name]
            before = program.body.statements[-1]
            program.body.statements[-1] = Statement([f"return ({''.join(f'{v}, ' for v in kept)})"])
            if fails(program):
                names, improved = kept, True
            else:
                program.body.statements[-1] = before
    return program


def _groups(group: Group) -> Iterator[Group]:
    yield group
    for statement in group.statements:
        for part in statement.parts:
            if isinstance(part, Group):
                yield from _groups(part)
