"""``loopwright advise``: changes that make a function faster here, measured, as patches."""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.target import Target
from ..face.compiled_function import CompiledFunction
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..text import seconds_text, table
from ..tuning.interleaved import whole_calls
from .usage import UsageError
from .userfile import UserFunction, add_function_arguments, load_function

HELP = "what would make my function faster here?"
DESCRIPTION = "Measure changes of a function beside it as it is, and show the good ones as patches."
EXAMPLES = """\
examples:
  loopwright advise net.py:predict                  float32, bfloat16, fewer threads
  loopwright advise net.py:predict --tune           and schedules that are tuned quickly
  loopwright advise net.py:predict > net.patch      patch -p0 < net.patch applies all of them

All versions run on the same arguments, alternately. The error is that of the results, relative to
the largest element: whether it is welcome is yours to say.
"""

_WELCOME_GAIN = 0.03
"""Share of the time that a change has to save: noise saves less."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change: what it is, the option of ``lw.compile`` or the parameters to cast that it needs,
    and the function with it."""

    name: str
    option: str
    casts: tuple[str, ...]
    compiled: CompiledFunction


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``advise``."""
    add_function_arguments(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the function as it is")
    parser.add_argument("--seconds", type=float, default=3.0, help="time to spend measuring (3)")
    parser.add_argument("--tune", action="store_true", help="try schedules that are tuned, too")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    user = load_function(args.function, args.arg, threads=args.threads)
    positional, named = user.arrays()
    base, arrays = user.compiled.in_use(*positional, **named)
    changes = [*_changes(user, positional, named, args.tune)]
    builds = [base.built, *(c.compiled.in_use(*positional, **named)[0].built for c in changes)]
    times = [statistics.median(t) for t in whole_calls(builds, arrays, args.seconds)]
    exact = base.built.call(arrays)
    rows, good = [("as it is", seconds_text(times[0]), "", "")], []
    for change, build, seconds in zip(changes, builds[1:], times[1:], strict=True):
        gain = 1 - seconds / times[0]
        error = _error(exact, build.call(arrays))
        rows.append((change.name, seconds_text(seconds), f"{-gain:+.0%}", f"{error:.1e}"))
        good += [change] if gain >= _WELCOME_GAIN else []
    lines = table(("version", "time", "change", "error"), rows).splitlines()
    print("\n".join(f"# {line}" for line in lines))
    if not good:
        print("# nothing of this helps")
    for change in good:
        print(f"#\n# {change.name}\n{_patch(user, change)}", end="")
    return 0


def _changes(
    user: UserFunction, args: Sequence[Any], named: dict[str, Any], tune: bool
) -> Iterator[_Change]:
    options = user.compiled.options()
    make = lambda f, **more: CompiledFunction(f, **{**options, **more})  # noqa: E731
    bound = inspect.signature(user.plain).bind(*args, **named).arguments
    doubles = [n for n, a in bound.items() if isinstance(a, np.ndarray) and a.dtype == np.float64]
    if doubles:
        yield _Change("in float32", "", tuple(doubles), make(_cast(user.plain, doubles)))
    if Target.host().dot("bf16"):
        yield _Change(
            "products in bfloat16", 'precision="bf16"', (), make(user.plain, precision="bf16")
        )
    if (user.compiled.threads or Target.host().cores) > 1:
        yield _Change("on one thread", "threads=1", (), make(user.plain, threads=1))
    if tune:
        yield _Change("tuned quickly", 'tune="quick"', (), make(user.plain, tune="quick"))


def _cast(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Returns the function of arrays that are cast to float32 first."""
    signature = inspect.signature(function)

    def narrow(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name in names:
            bound.arguments[name] = bound.arguments[name].astype(np.float32)
        return function(*bound.args, **bound.kwargs)

    narrow.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    narrow.__name__ = getattr(function, "__name__", "function")
    return narrow


def _error(exact: Sequence[Array], got: Sequence[Array]) -> float:
    """Returns the greatest error of results, relative to the largest element of each."""
    errors = [0.0]
    for one, other in zip(exact, got, strict=True):
        if one.size and one.dtype.kind in "fc":
            size = float(np.max(np.abs(one))) or 1.0
            errors.append(float(np.max(np.abs(one - other.astype(one.dtype)))) / size)
    return max(errors)


def _patch(user: UserFunction, change: _Change) -> str:
    """Returns a change as a unified diff of the file; for a model, the option alone."""
    try:
        path = Path(inspect.getsourcefile(user.plain) or "")
        _, first = inspect.getsourcelines(user.plain)
        before = path.read_text().splitlines(keepends=True)
        nodes = ast.walk(ast.parse("".join(before)))
    except (OSError, TypeError, SyntaxError):
        return f"{change.option}\n"
    is_it = lambda n: isinstance(n, ast.FunctionDef) and _first_line(n) == first  # noqa: E731
    node = next((n for n in nodes if is_it(n)), None)
    if not isinstance(node, ast.FunctionDef):
        return f"{change.option or ', '.join(change.casts)}\n"
    after = [*before]
    if change.casts:
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        at, indent = body[0].lineno - 1, " " * body[0].col_offset
        after[at:at] = [f"{indent}{n} = {n}.astype(np.float32)\n" for n in change.casts]
    else:
        _with_option(after, node, change.option)
    named = user.name.rpartition(":")[0]
    return "".join(difflib.unified_diff(before, after, named, named, n=1))


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _with_option(lines: list[str], node: ast.FunctionDef, option: str) -> None:
    """Adds an option to the decorator that compiles a function, or such a decorator."""
    name, _, value = option.partition("=")
    added = ast.keyword(name, ast.parse(value, mode="eval").body)
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        is_ours = re.fullmatch(r"(\w+\.)?compile", ast.unparse(call.func))
        if is_ours and decorator.end_lineno == decorator.lineno:
            others = [k for k in call.keywords if k.arg != name]
            text = ast.unparse(ast.Call(call.func, call.args, [*others, added]))
            lines[decorator.lineno - 1] = f"{' ' * (decorator.col_offset - 1)}@{text}\n"
            return
    at = _first_line(node) - 1
    lines[at:at] = [f"{' ' * node.col_offset}@lw.compile({option})\n"]
