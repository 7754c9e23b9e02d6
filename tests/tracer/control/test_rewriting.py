"""The rewrites that errors show: each is run, by Python and traced, beside the user's own lines."""

from __future__ import annotations

import ast
import copy
import linecache
import textwrap
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.evaluate import evaluate
from loopwright.tracer.core.pytree import flatten
from loopwright.tracer.core.spans import full_path
from loopwright.tracer.rewriting.statements import rewritten

MOST_STATEMENTS = 4
"""Statements of one program that are rewritten, one error after the other."""


def _function(source: str) -> Any:
    file = f"<rewritten {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "lw": lw}
    exec(compile(source, file, "exec"), space)
    return space["f"]


def _rewritten(source: str, error: lw.LoopwrightError) -> str:
    """Puts the lines that the error shows in the place of the user's."""
    span, hint = error.span, error.hint
    assert span is not None and hint is not None and full_path(span.file)
    made = rewritten(source, span.line, span.column)
    assert made is not None, f"no rewrite: {error}"
    assert hint.startswith(made.text)
    lines = source.splitlines()
    first = lines[made.first - 1]
    margin = first[: len(first) - len(first.lstrip())]
    lines[made.first - 1 : made.last] = textwrap.indent(made.text, margin).splitlines()
    return "\n".join(lines) + "\n"


def check(source: str, *args: Any) -> str:
    """Rewrites until the function can be traced; compares what it gives with the original."""
    source = textwrap.dedent(source)
    given = copy.deepcopy(args)
    wanted = flatten((_function(source)(*given), given))[0]
    for _ in range(MOST_STATEMENTS):
        try:
            # Specs have no values, which would be taken for ints that are needed.
            specs = [lw.i64 if type(a) is int else a for a in args]
            traced = lw.compile(_function(source), capture=False).trace(*specs)
            break
        except lw.LoopwrightTypeError as error:
            source = _rewritten(source, error)
    else:
        pytest.fail(f"still not traced:\n{source}")
    python = copy.deepcopy(args)
    eagerly = flatten((_function(source)(*python), python))[0]
    results = evaluate(traced.module, *[np.array(a) for a in args])
    results = list(results) if isinstance(results, tuple) else [results]
    for one, other in zip(eagerly, wanted, strict=True):
        np.testing.assert_allclose(one, other)
    for one, other in zip(results, wanted):
        np.testing.assert_allclose(one, other)
    ast.parse(source)
    return source


def test_collatz() -> None:
    text = check(
        """
        def f(n):
            steps = 0
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps += 1
            return steps
        """,
        27,
    )
    assert text == textwrap.dedent(
        """
        def f(n):
            steps = 0
            def condition(carry):
                n, steps = carry
                return n != 1
            def body(carry):
                n, steps = carry
                n = lw.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
                steps += 1
                return n, steps
            n, steps = lw.while_loop(condition, body, (n, steps))
            return steps
        """
    )


PROGRAMS = {
    "gcd": (
        """
        def f(a, b):
            while b:
                a, b = b, a % b
            return a
        """,
        (48, 36),
    ),
    "one variable": (
        """
        def f(x):
            while x < 100:
                x = x * 2
            return x
        """,
        (3.0,),
    ),
    "branches that assign": (
        """
        def f(x):
            y = x * 0
            if x.sum() > 0:
                y = x + 1
                z = 2
            else:
                z = 3
            return y, z
        """,
        (np.array([1.0, 2.0]),),
    ),
    "a branch without else": (
        """
        def f(x, n):
            if n > 2 and not x.max() > 100:
                x = x * n
                n += 1
            return x + n
        """,
        (np.array([1.0, 2.0]), 3),
    ),
    "elif": (
        """
        def f(n):
            if n < 0:
                sign = -1
            elif n == 0:
                sign = 0
            else:
                sign = 1
            return sign
        """,
        (-5,),
    ),
    "branches that return": (
        """
        def f(x):
            if 0 < x < 1:
                return x * 2
            y = x - 1
            return y * y
        """,
        (3.0,),
    ),
    "membership": (
        """
        def f(n):
            kind = 0
            if n in (2, 3, 5) and n not in [3]:
                kind = 1
            return kind
        """,
        (5,),
    ),
    "both return": (
        """
        def f(x):
            if x > 0:
                return x
            else:
                return -x
        """,
        (-3.0,),
    ),
    "an expression": (
        """
        def f(x):
            y = x * 2 if x > 0 else -x
            return max(y, 4.0) + abs(x)
        """,
        (-3.0,),
    ),
    "an expression in a lambda": (
        """
        def f(x):
            g = lambda v: v if v > 0 else v * 0.1
            return g(x) + 1
        """,
        (-3.0,),
    ),
    "a range": (
        """
        def f(n, x):
            total = 0
            for i in range(n):
                total = total + i * x
            return total
        """,
        (5, 2.0),
    ),
    "a range with several variables": (
        """
        def f(n):
            a, b = 0, 1
            for i in range(2, n):
                a, b = b, a + b
                if b % 2 == 0:
                    a += i
            return a + b
        """,
        (9,),
    ),
    "a range that writes an array": (
        """
        def f(n, x):
            y = x.copy()
            for i in range(n):
                y[0] = y[0] + i
                y[1:] *= 2
            return y
        """,
        (3, np.arange(4.0)),
    ),
    "break": (
        """
        def f(x, tolerance):
            guess = x
            while True:
                better = (guess + x / guess) / 2
                if abs(better - guess) < tolerance:
                    break
                guess = better
            return guess
        """,
        (2.0, 1e-9),
    ),
    "break in a range": (
        """
        def f(limit):
            total = 0
            steps = 0
            for i in range(100):
                total += i
                if total > limit:
                    break
                steps += 1
            return total, steps
        """,
        (50,),
    ),
    "continue": (
        """
        def f(n):
            total = 0
            for i in range(n):
                if i % 3 == 0:
                    continue
                total += i
            return total
        """,
        (10,),
    ),
    "nested loops": (
        """
        def f(n):
            count = 0
            i = 0
            while i < n:
                j = 0
                while j * j < i:
                    j += 1
                    count += j
                i += 1
            return count
        """,
        (12,),
    ),
    "two statements": (
        """
        def f(x, n):
            if x > 0:
                x = -x
            while n > 0:
                x, n = x * 2, n - 1
            return x
        """,
        (1.5, 4),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rewrites_mean_the_same(name) -> None:
    source, args = PROGRAMS[name]
    check(source, *args)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, s):\n    if x > 0:\n        s.a = 1\n",
        "def f(x):\n    while x > 0:\n        return x\n",
        "def f(x):\n    if x > 0:\n        y = 1\n    return y\n",
        "def f(x):\n    for i in g(x):\n        x = x + i\n    return x\n",
    ],
)
def test_what_has_no_rewrite_has_none(source) -> None:
    line = 2
    column = source.split("\n")[1].index("x")
    assert rewritten(source, line, column) is None
