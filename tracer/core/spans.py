"""The user's place in the source: which frame, which line, which columns.

Frames of Loopwright and of NumPy are passed over. Columns come from ``co_positions()`` of
Python 3.11, so a caret can stand under one operator of a long line.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import linecache
import math
import os
import sys
import sysconfig
import textwrap
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ...ir.span import FULL_PATHS, Span, full_path

Positions = list[tuple[int | None, int | None, int | None, int | None]]
Decoded = tuple[CodeType, str, Positions]


def user_frame() -> FrameType | None:
    """Returns the innermost frame of the user's: of neither Loopwright nor NumPy, nor of other
    installed code unless the traced function itself is that."""
    frame = inspect.currentframe()
    while frame is not None and is_library(frame):
        frame = frame.f_back
    innermost = frame
    while frame is not None and (_is_installed(frame.f_code.co_filename) or is_library(frame)):
        if frame.f_globals.get("__name__") == "loopwright.tracer.function":
            return innermost
        frame = frame.f_back
    return frame or innermost


def is_library(frame: FrameType) -> bool:
    """True for what runs in Loopwright and in NumPy."""
    name = frame.f_globals.get("__name__", "")
    return name.startswith(("loopwright.", "numpy.")) or name in ("loopwright", "numpy")


@functools.cache
def _is_installed(file: str) -> bool:
    """True for the files of packages and of Python's own library."""
    parts = Path(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return file.startswith((f"{sysconfig.get_paths()['stdlib']}{os.sep}", "<frozen "))


def iterations_around() -> float:
    """Returns how many iterations the loops around the user's place have together: 1 for a loop
    over a list, which is Python's, infinity where that is not known."""
    frame = inspect.currentframe()
    count = 1.0
    while frame is not None and frame.f_globals.get("__name__") != "loopwright.tracer.function":
        if not is_library(frame) and not _is_installed(frame.f_code.co_filename):
            line = frame.f_lineno
            for first, last, over in _loops(frame.f_code):
                count *= _iterations(over, frame) if first <= line <= last else 1
        frame = frame.f_back
    return count


@functools.lru_cache(256)
def _loops(code: CodeType) -> list[tuple[int, int, ast.expr | None]]:
    """Returns the first and last lines of the bodies of the loops in a function, and what they run
    over, None for a ``while``; nothing if it has no source."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return []
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.While | ast.For)]
    before = max(first, 1) - 1
    return [
        (
            n.body[0].lineno + before,
            (n.end_lineno or 0) + before,
            n.iter if isinstance(n, ast.For) else None,
        )
        for n in loops
    ]


def _iterations(over: ast.expr | None, frame: FrameType) -> float:
    match over:
        case ast.Call(func=ast.Name(id="range"), args=args):
            bounds = [_value(a, frame) for a in args]
            return len(range(*bounds)) if all(type(b) is int for b in bounds) else math.inf
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=args):
            lists = [a for a in args if isinstance(_value(a, frame), list | tuple)]
            return 1 if lists else math.inf
        case None:
            return math.inf
        case _:
            return 1


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Returns the value of a constant, a variable, or the length of one; None for others."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            value = frame.f_locals.get(name, frame.f_globals.get(name))
            return len(value) if isinstance(value, list | tuple) else None
        case _:
            return None


def span_of(
    frame: FrameType, cache: dict[int, Decoded] | None = None, instruction: int | None = None
) -> Span:
    """The span that ``frame`` executes now, or at an ``instruction``. ``cache`` keeps decoded
    positions of code objects."""
    code = frame.f_code
    index = (frame.f_lasti if instruction is None else instruction) // 2
    if cache is None:
        file = short_path(code.co_filename)
        position = next(itertools.islice(code.co_positions(), index, None), (None,) * 4)
    else:
        decoded = cache.get(id(code))
        if decoded is None:
            decoded = (code, short_path(code.co_filename), list(code.co_positions()))
            cache[id(code)] = decoded
        _, file, positions = decoded
        position = positions[index]
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return Span(file, frame.f_lineno, function=code.co_name)
    return Span(file, line, column, end_line, end_column, code.co_name)


def definition_of(function: object) -> Span | None:
    """Returns the line on which a Python function begins."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Span(short_path(code.co_filename), code.co_firstlineno, function=code.co_name)


def instruction(frame: FrameType, offset: int | None = None) -> str:
    """The name of the bytecode instruction ``frame`` executes now, such as ``STORE_SUBSCR``, or of
    that at an ``offset``."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti if offset is None else offset]]


def previous_instruction(frame: FrameType) -> str:
    """Returns the name of the instruction before the one that ``frame`` executes now."""
    # f_lasti may lie in the cache behind the instruction, where that calls Python code inline.
    steps = dis.get_instructions(frame.f_code)
    names = [step.opname for step in steps if step.offset <= frame.f_lasti]
    return names[-2] if len(names) > 1 else ""


def short_path(path: str) -> str:
    """The path in messages: relative to the working folder if it is inside, else its last part."""
    short = _notebook_cell(path) or os.path.basename(path)
    if os.path.isabs(path) and not short.startswith("In["):
        try:
            inside = os.path.relpath(path)
        except (OSError, ValueError):
            inside = ".."
        if not inside.startswith(".."):
            short = inside
    if short != path:
        FULL_PATHS[short] = path
    return short


def _notebook_cell(path: str) -> str:
    """Returns ``In[3]`` for the file of a notebook's cell, whose lines are found under that, too;
    empty for other files."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = name_of and path in linecache.cache and name_of(path)
    if not named:
        return ""
    linecache.cache[named[1]] = linecache.cache[path]
    return named[1]


def _columns(span: Span) -> tuple[str, int, int] | None:
    """Returns the first line of ``span`` and the characters it covers there."""
    text = linecache.getline(full_path(span.file), span.line).rstrip("\n")
    if not text.strip():
        return None
    if span.column < 0:
        return text, len(text) - len(text.lstrip()), len(text.rstrip())
    data = text.encode()  # columns count bytes
    start = len(data[: span.column].decode(errors="replace"))
    if span.end_line != span.line:
        return text, start, len(text.rstrip())
    return text, start, len(data[: span.end_column].decode(errors="replace"))


def caret_lines(span: Span) -> tuple[str, ...]:
    """Returns the source line and carets under the span; nothing if the source cannot be read."""
    columns = _columns(span)
    if columns is None:
        return ()
    text, start, end = columns
    untabbed = text.replace("\t", " ")
    carets = " " * start + "^" * max(1, end - start)
    return f"{span.line:>5} | {untabbed}", f"{'':>5} | {carets}"


def segment(span: Span) -> str:
    """Returns the source text the span covers, on one line; empty if it cannot be read."""
    first = _columns(span)
    if first is None or span.column < 0:
        return ""
    text, start, end = first
    if span.end_line == span.line:
        return text[start:end]
    parts = [text[start:]]
    path = full_path(span.file)
    parts += [linecache.getline(path, n).strip() for n in range(span.line + 1, span.end_line)]
    last = linecache.getline(path, span.end_line).encode()[: span.end_column]
    return " ".join([*parts, last.decode(errors="replace").strip()])


def operand_texts(source: str) -> list[str]:
    """Returns the texts of the operands of the operation in ``source``, from left to right.

    What stands before a dot comes first, be it an array or a module.

    >>> operand_texts("q @ k.T")
    ['q', 'k.T']
    >>> operand_texts("np.maximum(x @ w, 0)")
    ['np', 'x @ w', '0']
    """
    try:
        tree = ast.parse(source.strip()).body[0]
    except (SyntaxError, IndexError):
        return []
    if isinstance(tree, ast.AugAssign):
        return [ast.unparse(tree.target), ast.unparse(tree.value)]
    if not isinstance(tree, ast.Expr):
        return []
    node = tree.value
    if isinstance(node, ast.BinOp):
        return [ast.unparse(node.left), ast.unparse(node.right)]
    if isinstance(node, ast.UnaryOp):
        return [ast.unparse(node.operand)]
    if isinstance(node, ast.Compare):
        return [ast.unparse(node.left), *map(ast.unparse, node.comparators)]
    if isinstance(node, ast.Subscript):
        return [ast.unparse(node.value)]
    if isinstance(node, ast.Call):
        return _call_texts(node)
    return [ast.unparse(node)]


def _call_texts(node: ast.Call) -> list[str]:
    texts: list[str] = []
    if isinstance(node.func, ast.Attribute):
        texts.append(ast.unparse(node.func.value))
    for argument in node.args:
        inner = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
        texts += [ast.unparse(part) for part in inner]
    return texts + [ast.unparse(keyword.value) for keyword in node.keywords]
