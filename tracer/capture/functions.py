"""Functions whose control flow is captured, made of the user's source.

A function is rewritten once, when a trace first needs it, and has the variables, defaults and
lines of the original: errors and profiles show the user's file.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from typing import Any
from weakref import WeakKeyDictionary

from . import syntax

_functions: WeakKeyDictionary[types.FunctionType, types.FunctionType] = WeakKeyDictionary()
_made: WeakKeyDictionary[types.CodeType, dict[str, types.CodeType | None]] = WeakKeyDictionary()
"""Rewritten code by the code and its file: equal text at one line of two files is equal code."""


def captured(function: Any, library: Any) -> Any:
    """Returns the function with control flow as calls of ``library``; the same object if it has no
    source that can be rewritten."""
    if isinstance(function, types.MethodType):
        inner, holder = captured(function.__func__, library), function.__self__
        return function if inner is function.__func__ else types.MethodType(inner, holder)
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__
    if syntax.LIBRARY in code.co_freevars:
        return function
    by_file = _made.setdefault(code, {})
    if code.co_filename not in by_file:
        by_file[code.co_filename] = _rewritten(function)
    made = by_file[code.co_filename]
    if made is None:
        return function
    if function not in _functions:  # one object, so that what calls itself is known again
        _functions[function] = _like(function, made, library)
    return _functions[function]


def _like(function: types.FunctionType, code: types.CodeType, library: Any) -> types.FunctionType:
    """Returns the function with other code, which has one variable more."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[syntax.LIBRARY] = types.CellType(library)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__dict__.update(function.__dict__)
    return made


def _rewritten(function: types.FunctionType) -> types.CodeType | None:
    """Returns the code of the rewritten function; None if there is nothing to rewrite, or no
    source."""
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    ast.increment_lineno(tree, first - 1)
    node = _definition(tree, code)
    if node is None or not syntax.can_be_rewritten(node):
        return None
    for each in ast.walk(tree):
        if isinstance(each, ast.expr | ast.stmt | ast.arg | ast.keyword):
            each.col_offset += indent
            each.end_col_offset = (each.end_col_offset or 0) + indent
    node.decorator_list = []
    node.name = "function·"  # no variable of the user's: a global function may call itself
    syntax.rewrite(node)
    try:
        whole = compile(
            _around(node, function),
            code.co_filename,
            "exec",
            dont_inherit=True,
            flags=code.co_flags & _FUTURE,
        )
    except (SyntaxError, RecursionError):
        return None
    inner_code = _inside(whole, node.name)
    if inner_code is None or set(inner_code.co_freevars) - {*code.co_freevars, syntax.LIBRARY}:
        return None
    return _renamed(inner_code, code)


_FUTURE = 0x1000000  # CO_FUTURE_ANNOTATIONS


def _definition(tree: ast.Module, code: types.CodeType) -> ast.FunctionDef | None:
    """Returns the definition that ``code`` was made of; a lambda as a function that returns."""
    if code.co_name == "<lambda>":
        lambdas = [
            n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and _same_place(n.body, code)
        ]
        if len(lambdas) != 1:
            return None
        (node,) = lambdas
        value = ast.copy_location(ast.Return(node.body), node.body)
        made = ast.FunctionDef("lambda_", node.args, [value], [], None, None)
        made.type_params = []  # pyright: ignore
        return ast.fix_missing_locations(ast.copy_location(made, node))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return node
    return None


def _same_place(node: ast.expr, code: types.CodeType) -> bool:
    """True if code begins at a node's line and computes all of its names."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    computed = {*code.co_varnames, *code.co_names, *code.co_freevars, *code.co_cellvars}
    return node.lineno == code.co_firstlineno and names <= computed


def _around(node: ast.FunctionDef, function: types.FunctionType) -> ast.Module:
    """Returns a module in which the definition stands in a function that binds the variables from
    outside, and in the class whose private names it uses."""
    outer = [syntax.LIBRARY, *(n for n in function.__code__.co_freevars if n != "__class__")]
    parameters = ast.arguments([], [ast.arg(n) for n in outer], None, [], [], None, [])
    wrapper = ast.FunctionDef("outer·", parameters, [node], [], None, None)
    wrapper.type_params = []  # pyright: ignore
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
    for each in ast.walk(node.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    node.returns = None
    body: list[ast.stmt] = [wrapper]
    owner = function.__qualname__.split(".")[-2:-1]
    if owner and owner != ["<locals>"]:
        holder = ast.ClassDef(owner[0], [], [], [wrapper], [])
        holder.type_params = []  # pyright: ignore
        body = [holder]
    return ast.fix_missing_locations(ast.Module(body, []))


def _inside(code: types.CodeType, name: str) -> types.CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and syntax.LIBRARY in constant.co_freevars:
                return constant
            if constant.co_name != name and (inner_code := _inside(constant, name)) is not None:
                return inner_code
    return None


def _renamed(code: types.CodeType, like: types.CodeType) -> types.CodeType:
    """Returns code whose functions for bodies and tests have the name of the user's function."""
    constants = tuple(
        _renamed(c, like) if isinstance(c, types.CodeType) and "·" in c.co_name else c
        for c in code.co_consts
    )
    return code.replace(co_consts=constants, co_name=like.co_name, co_qualname=like.co_qualname)
