"""Pages of the API, from signatures and docstrings of what is imported.

Imported, not parsed: functions of ``lw.nn`` are made from the operators' declarations.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import loopwright as lw

__all__ = ["pages"]

GROUPS = {
    "Compile": "compile CompiledFunction Lowered Compiled Traced CacheInfo PassContext Background "
    "log",
    "Shapes and arguments": "Dim symbol Spec parse_spec register_pytree",
    "Control flow": "cond switch while_loop fori_loop scan map function",
    "Arrays": "at argwhere flatnonzero nonzero unique",
    "Gradients": "grad value_and_grad jvp vjp linearize jacobian hessian hvp vmap stop_gradient "
    "checkpoint custom_jvp custom_vjp check_grads",
    "Models": "from_onnx from_torch load_language_model load_weights quantize Scheme",
    "Files": "load SavedFunction",
    "Programs as text": "build parse Module ModuleBuilder CompiledModule",
    "Code of your own": "extern prim sketch_rule Sketch",
    "Errors and warnings": "LoopwrightError LoopwrightTypeError LoopwrightValueError "
    "LoopwrightIndexError LoopwrightOverflowError LoopwrightMemoryError LoopwrightOSError "
    "UnsupportedError InternalError FrozenWarning RecompilationWarning RefusedFileWarning",
    "Promises": "assert_faster_than TooSlowError",
}
MODULES = ("nn", "random", "optim", "debug", "xp", "te", "schedule")


def pages() -> dict[str, str]:
    """Returns the text of each page by its name: ``{"reference/nn.md": ...}``."""
    made = {"reference/index.md": _front()}
    for name in MODULES:
        module = getattr(lw, name)
        names = [n for n in _public(module) if not isinstance(getattr(module, n), ModuleType)]
        parts = [f"# lw.{name}", _markdown(inspect.getdoc(module) or "")]
        parts += [_entry(module, f"lw.{name}", n) for n in names if callable(getattr(module, n))]
        values = [f"`{n}`" for n in names if not callable(getattr(module, n))]
        parts += [f"## Other names\n\n{', '.join(values)}"] * bool(values)
        made[f"reference/{name}.md"] = "\n\n".join(parts) + "\n"
    return made


def _front() -> str:
    parts = ["# lw", _markdown(inspect.getdoc(lw) or "")]
    rows = [f"| [`lw.{n}`]({n}.md) | {_first(getattr(lw, n))} |" for n in MODULES]
    parts.append("| module | holds |\n| --- | --- |\n" + "\n".join(rows))
    parts.append(
        "Examples below import `numpy` as `np`, `loopwright` as `lw`, and `nn` from `loopwright`."
    )
    specs = [n for n in lw.__all__ if isinstance(getattr(lw, n), type(lw.f32))]
    listed = {*" ".join(GROUPS.values()).split(), *specs, *MODULES}
    groups = GROUPS | {"More": " ".join(n for n in sorted(lw.__all__) if n not in listed)}
    for title, names in groups.items():
        parts += [f"## {title}"] * bool(names)
        parts += [_entry(lw, "lw", name, level=3) for name in names.split()]
    names = ", ".join(f"`lw.{n}`" for n in sorted(specs))
    parts.append(f"## Dtypes\n\n{names}: `lw.f32[64, 784]` describes an argument without values.")
    return "\n\n".join(parts) + "\n"


def _public(module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if name[0] != "_" and getattr(thing, "__module__", "") == module.__name__
    ]
    return sorted(names, key=str.lower)


def _first(thing: Any) -> str:
    return _markdown((inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " "))


def _entry(module: ModuleType, prefix: str, name: str, level: int = 2) -> str:
    thing = getattr(module, name)
    parts = [f"{'#' * level} {prefix}.{name}"]
    if signature := _signature(thing):
        parts.append(f"```python\n{prefix}.{name}{signature}\n```")
    parts.append(_markdown(inspect.getdoc(thing) or ""))
    if isinstance(thing, type) and not issubclass(thing, BaseException):
        parts += _methods(thing, f"{prefix}.{name}", level + 1)
    return "\n\n".join(parts)


def _methods(thing: type, prefix: str, level: int) -> Iterator[str]:
    """The public methods and properties of a class that have a docstring, those of bases too."""
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        if name[0] == "_" or not (callable(member) or isinstance(member, property)):
            continue
        if not (doc := inspect.getdoc(member)) or doc == inspect.getdoc(type(member)):
            continue
        call = "" if isinstance(member, property) else _signature(member)
        yield f"{'#' * level} {prefix}.{name}"
        if call:
            yield f"```python\n{name}{call}\n```"
        yield _markdown(doc)


def _signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (ValueError, TypeError):
        return ""
    text = re.sub(r": '([^']*)'", r": \1", re.sub(r"-> '([^']*)'", r"-> \1", text))
    text = re.sub(r"\bloopwright\.[\w.]*\.(\w+)", r"\1", re.sub(r" at 0x\w+", "", text))
    return text


def _markdown(doc: str) -> str:
    """A docstring as Markdown: examples and literal blocks are fenced."""
    parts: list[str] = []
    literal = False
    for part in re.split(r"\n\s*\n", doc):
        if part.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{inspect.cleandoc(part)}\n```")
        elif literal and part.startswith("    "):
            parts.append(f"```\n{inspect.cleandoc(part)}\n```")
            continue
        elif ">>>" in part:
            prose, _, example = part.partition("\n>>>")
            parts += [_prose(prose), f"```pycon\n>>>{example}\n```"]
        else:
            parts.append(_prose(part))
        literal = part.rstrip().endswith("::")
    return "\n\n".join(p for p in parts if p)


def _prose(text: str) -> str:
    text = re.sub(r"\s*::$", ":", text) if text.strip() != "::" else ""
    pieces = re.split(r"(``.*?``)", text, flags=re.DOTALL)
    return "".join(p[1:-1] if p.startswith("``") else p.replace("<", "&lt;") for p in pieces)
