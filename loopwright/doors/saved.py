"""Compiled functions as files: ``f.lower(...).save("net.lw")`` and ``lw.load("net.lw")``.

The file has the program (``codegen/saved_program.py``) and what a call needs besides: names and
structure of the arguments and of the result. Loading links the code and maps the constants; it
neither traces, compiles nor asks a log, so that none of that is imported, unless it is asked to
compile the file's source in the place of its code.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..codegen.runtime.executable import Executable
from ..codegen.saved_program import (
    FileSizes,
    SavedProgram,
    Source,
    load_program,
    load_source,
    save_program,
    written_size,
)
from ..driver.options import check_threads
from ..face.sizes import request_sizes, with_shapes
from ..face.user_errors import for_user, refuse_other_kind
from ..ir.dims import Dim
from ..ir.dtype import DTYPES
from ..ir.errors import LoopwrightError, LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..ir.graph.nodes import Block, Constant, Function, Module
from ..ir.graph.requirements import RELATIONS, Requirement
from ..ir.graph.types import TensorType
from ..ir.library.registry import DECLARING
from ..ir.span import Span
from ..tracer import ArraySpec, Request, Spec, Traced, bind, reader, to_array, valued_names
from ..tracer.core.arguments import LeafSpec, Static
from ..tracer.core.pytree import LEAF, Leaf, Node, Structure
from ..tracer.traced import Element, Fixed

if TYPE_CHECKING:
    from ..autotune.selection.select import Chosen
    from ..driver.built import Built

_CONTAINERS: dict[str, type] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "OrderedDict": OrderedDict,
    "None": type(None),
}
_VALUES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def save(
    traced: Traced, built: Built, static: Collection[str], path: str | Path, with_source: bool
) -> None:
    """Writes the code of a function for one kind of arguments to a file; see ``Lowered.save``."""
    if built.parts is None or built.source is None:
        raise UnsupportedError(f"{traced.name} is not made of kernels, so it cannot be saved")
    if traced.is_checked or traced.returns_arguments:
        raise UnsupportedError(
            f"{traced.name} changes its arguments or checks their values in every call, and cannot "
            "be saved yet",
            hint="return new arrays, and take arrays in the place of Python numbers",
        )
    main = traced.module.main
    count = sum(1 for output in traced.outputs if output is None or isinstance(output, Element))
    request = traced.request
    parts = built.parts
    extra = {
        "name": traced.name,
        "level": parts.target.isa,
        "parameters": [[n, _kind(traced.signature, n)] for n in request.names],
        "static": sorted(static),
        "arguments": [_written(s, traced.name) for s in request.structures],
        "sizes": [[s.name, s.low, s.high] for s in request_sizes(request).values()],
        "leaves": [_leaf(leaf, traced.name) for leaf in request.leaves],
        "operands": list(traced.parameters),
        "result": _written(traced.structure, traced.name),
        "fixed": [_output(o, traced.name) for o in traced.outputs],
        "requirements": [_requirement(r) for r in main.requirements],
        "inputs": [param.name for param in main.params],
        "outputs": list(main.attrs.get("outputs", map(str, range(count)))),
    }
    threads = built.source.threads
    source = _source(built) if with_source and built.has_weights else None
    save_program(Path(path), parts.program, parts.kernels, parts.target, threads, extra, source)


def _declare_kernel(name: str) -> None:
    try:
        from ..tracer.frontends.torch.rows.kernels import declare  # loaded when it is first needed
    except ModuleNotFoundError:
        hint = "pip install loopwright[torch]"
        raise UnsupportedError(f"the program calls {name} of PyTorch", hint=hint) from None
    declare(name)


DECLARING["aten"] = _declare_kernel


def load(path: str | Path, *, threads: int | None = None, compile: bool = False) -> SavedFunction:
    """Returns the function of a file that ``f.lower(...).save(path)`` has written.

    It is called as the function was. ``threads`` is how many it uses, if not as many as it was
    compiled for. The weights stay in the pages of the file, which must not be written meanwhile.
    Its machine code is run: load files of people you trust only.

    With ``compile`` no code of the file is run: its program is compiled here, for this processor,
    with its weights and its schedules, which are checked before their first use.

    Raises LoopwrightValueError if the file is damaged, was made for a processor that can do more
    than this one, or has nothing to compile; OSError if it cannot be read.

    >>> import numpy as np, tempfile, loopwright as lw
    >>> twice = lw.compile(lambda x: x * 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     twice.lower(lw.f32[3]).save(f"{folder}/twice.lw")
    ...     lw.load(f"{folder}/twice.lw")(np.float32([1, 2, 3]))
    array([2., 4., 6.], dtype=float32)
    """
    try:
        check_threads(threads)
        return SavedFunction(Path(path), threads, _compiled if compile else load_program)
    except (LoopwrightError, OSError) as error:
        reported = for_user(error)
    except Exception as error:  # whatever the file makes our code do
        reported = LoopwrightValueError(f"{path} is damaged: {type(error).__name__}: {error}")
    raise reported


class SavedFunction:
    """A compiled function from a file, for arguments of one kind.

    ``inputs`` and ``outputs`` are the names of its arrays, ``specs`` describe the inputs.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "f.lw")
    >>> lw.compile(lambda x: x + 1).lower(lw.f32[2]).save(path)
    >>> lw.load(path)(np.ones(2, np.float32)).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        load: Callable[[Path, int | None], SavedProgram] = load_program,
    ) -> None:
        saved = load(path, threads)
        self.traced, self._static, self.inputs, self.outputs = read_calls(saved.extra)
        self._valued = valued_names(self.traced.request, self._static)
        self.path = path
        self.target = saved.target
        self.name = self.traced.name
        self._text = saved.text
        self.executable = saved.executable
        self._finish = None if self.traced.returns_one_array else self.traced.result_writer()
        self._direct: Callable[..., list[Any] | None] = _nothing
        arrays = [self.traced.request.leaves[n] for n in self.traced.parameters]
        self.specs = tuple(Spec(leaf.type) for leaf in arrays if isinstance(leaf, ArraySpec))

    def __repr__(self) -> str:
        return f"<{self.name} of {self.path}: {self.traced.request}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the result. Raises LoopwrightTypeError for arguments of another kind than the
        function was saved for."""
        if not kwargs:
            results = self._direct(*args)
            if results is not None:
                return results[0] if self._finish is None else self._finish(results)
        try:
            return self._call(args, kwargs)
        except Exception as error:
            reported = for_user(error)
        raise reported

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        traced = self.traced
        given = bind(traced.name, traced.signature, self._static, args, kwargs, self._valued)
        refuse_other_kind(traced, given.request)
        results = self.executable([to_array(given.values[n]) for n in traced.parameters])
        if not kwargs:
            names = [*enumerate(traced.signature.parameters)]
            static, valued = (
                frozenset(n for n, name in names if name in some)
                for some in (self._static, self._valued)
            )
            self._direct = reader(args, {}, static, self.executable.call, valued) or _nothing
        return results[0] if self._finish is None else self._finish(results)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the result's arrays by name, for arrays by name; names may be any strings."""
        if set(feeds) != set(self.inputs):
            raise LoopwrightTypeError(
                f"{self.name} takes {', '.join(self.inputs) or 'nothing'}, "
                f"not {', '.join(feeds) or 'nothing'}"
            )
        arrays = [to_array(feeds[name]) for name in self.inputs]
        for name, spec, array in zip(self.inputs, self.specs, arrays, strict=True):
            sizes = [(s, n) for s, n in zip(spec.shape, array.shape) if not isinstance(s, Dim)]
            same = array.ndim == len(spec.shape) and all(s == n for s, n in sizes)
            if not same or array.dtype != spec.dtype:
                raise LoopwrightTypeError(
                    f"{name} of {self.name} is {array.dtype}{list(array.shape)}, but it was saved "
                    f"for {spec}"
                )
        if request_sizes(self.traced.request):
            shapes = {
                place: array.shape
                for place, array in zip(self.traced.parameters, arrays, strict=True)
            }
            refuse_other_kind(self.traced, with_shapes(self.traced.request, shapes))
        return dict(zip(self.outputs, self.executable(arrays), strict=True))

    def as_text(self, level: str = "program") -> str:
        """Returns the program as text, the only level that a file keeps."""
        if level != "program":
            raise UnsupportedError(f"a saved function has the level program, not {level}")
        return self._text


def _source(built: Built) -> Source:
    """Returns the lowered module of a build, and the schedules that are not the rules'."""
    from ..autotune.selection.select import Origin
    from ..ir.graph.printer import as_text, constants_of

    assert built.source is not None
    module = built.source.lowered
    chosen = {n: c.schedule for n, c in built.chosen.items() if c.origin is not Origin.RULES}
    schedules = {name: schedule.to_json() for name, schedule in chosen.items()}
    return Source(as_text(module), constants_of(module), schedules)


def source_of(
    path: Path,
) -> tuple[Module, dict[str, Chosen], int | None, Mapping[str, Any]]:
    """Returns the module in a file, its schedules by workload, and the file's threads and
    ``extra``. No code of the file is run."""
    from ..autotune.selection.select import Chosen, Origin
    from ..autotune.workload import workload_of
    from ..driver.pipeline import kernels_of
    from ..ir.graph.parser import parse_module
    from ..ir.schedule.cases import Cases
    from ..ir.schedule.steps import Schedule

    source, threads, extra = load_source(path)
    module = parse_module(source.text, constants=source.constants, file=str(path))
    prims = kernels_of(module)
    schedules: dict[str, Chosen] = {}
    for name, data in source.schedules.items():
        prim = prims[name]
        sizes = {size.name: size for size in prim.sizes}
        schedule = Cases.from_json(data, sizes) if sizes else Schedule.from_json(data)
        schedules[workload_of(prim).hash] = Chosen(schedule, Origin.GIVEN, "given")
    return module, schedules, threads, extra


def _compiled(path: Path, threads: int | None) -> SavedProgram:
    """Returns the program of a file's source, compiled here."""
    from ..driver.pipeline import build

    module, schedules, threads_then, extra = source_of(path)
    built = build(module, threads=threads or threads_then, taken={}, schedules=schedules)
    assert built.parts is not None and isinstance(built.call, Executable)
    traced, _, inputs, outputs = read_calls(extra)
    leaves = [traced.request.leaves[n] for n in traced.parameters]
    given = [str(leaf.type) for leaf in leaves if isinstance(leaf, ArraySpec)]
    results = [o for o in traced.outputs if o is None or isinstance(o, Element)]
    counts = len(given), len(built.call.outputs), len(built.call.outputs)
    if given != [str(p.type) for p in module.main.params] or counts != (
        len(inputs),
        len(outputs),
        len(results),
    ):
        raise LoopwrightValueError(f"{path} is damaged: its program takes or returns other arrays")
    return SavedProgram(built.call, built.parts.target, str(built.parts.program), extra)


def _nothing(*args: Any) -> None:
    """Stands for the quick call of a function that has not been called."""


def _kind(signature: inspect.Signature, name: str) -> int:
    """Returns the kind of a parameter; each of ``**kwargs`` is a keyword."""
    parameter = signature.parameters.get(name)
    return int(inspect.Parameter.KEYWORD_ONLY if parameter is None else parameter.kind)


def _written(structure: Structure, name: str) -> Any:
    if isinstance(structure, Leaf):
        return "*"
    kinds = {kind: word for word, kind in _CONTAINERS.items()}
    word, aux = kinds.get(structure.type), structure.aux
    keys = list(aux) if isinstance(aux, tuple) else []
    if word is None or not all(type(key) in (str, int) for key in keys):
        kind = getattr(aux, "family", structure.type.__name__)
        raise UnsupportedError(
            f"{name} takes or returns a {kind}, which a file cannot keep",
            hint="tuples, lists, and dicts with strings for keys",
        )
    return [word, keys, [_written(child, name) for child in structure.children]]


def _structure(written: Any) -> Structure:
    if written == "*":
        return LEAF
    word, keys, children = written
    aux = tuple(keys) if word in ("dict", "OrderedDict") else None
    return Node(_CONTAINERS[word], aux, tuple(map(_structure, children)))


def _leaf(leaf: LeafSpec, name: str) -> list[Any]:
    if isinstance(leaf, Static):
        return _value(leaf, name)
    weak = None if leaf.weak is None else leaf.weak.__name__
    return ["array", leaf.type.dtype.name, [*map(written_size, leaf.type.shape)], weak]


def _output(output: Any, name: str) -> list[Any] | None:
    """Returns a leaf of the result as a file has it: None for the next array."""
    if output is None:
        return None
    if isinstance(output, Element):
        return ["size" if output.python else "scalar", None]
    return _value(output, name)


def _requirement(wanted: Requirement) -> list[Any]:
    place = None if wanted.span is None else [wanted.span.file, wanted.span.line]
    pair = written_size(wanted.left), written_size(wanted.right)
    return [pair[0], wanted.relation, pair[1], wanted.message, place]


def _value(fixed: Any, name: str) -> list[Any]:
    kind = type(fixed.value).__name__
    if _VALUES.get(kind) is not type(fixed.value):
        raise UnsupportedError(f"{name} takes or returns {fixed.value!r}, which a file cannot keep")
    return [kind, fixed.value]


Names: TypeAlias = tuple[str, ...]


def read_calls(extra: Mapping[str, Any]) -> tuple[Traced, frozenset[str], Names, Names]:
    """Returns what a file says about the calls of its function."""
    kinds = list(inspect._ParameterKind)  # pyright: ignore[reportPrivateUsage]
    parameters = [inspect.Parameter(name, kinds[kind]) for name, kind in extra["parameters"]]
    sizes = FileSizes(extra.get("sizes", ()))
    request = Request(
        tuple(parameter.name for parameter in parameters),
        tuple(map(_structure, extra["arguments"])),
        tuple(_leaf_of(row, sizes) for row in extra["leaves"]),
    )
    outputs = tuple(map(_output_of, extra["fixed"]))
    required = tuple(_requirement_of(row, sizes) for row in extra.get("requirements", ()))
    main = Function((), Block((), Constant(np.zeros(()))), {}, None, required)
    traced = Traced(
        str(extra["name"]),
        inspect.Signature(parameters),
        Module({"main": main}),
        request,
        tuple(extra["operands"]),
        _structure(extra["result"]),
        outputs,
    )
    names = tuple(map(str, extra["inputs"])), tuple(map(str, extra["outputs"]))
    return traced, frozenset(extra["static"]), *names


def _output_of(row: Sequence[Any] | None) -> Fixed | Element | None:
    if row is None:
        return None
    if row[0] in ("size", "scalar"):
        return Element(python=row[0] == "size")
    return Fixed(_VALUES[row[0]](row[1]))


def _requirement_of(row: Sequence[Any], sizes: FileSizes) -> Requirement:
    left, relation, right, message, place = row
    if relation not in RELATIONS:
        raise ValueError(f"no relation: {relation!r}")
    span = None if place is None else Span(str(place[0]), int(place[1]))
    return Requirement(sizes.value(left), relation, sizes.value(right), str(message), span)


def _leaf_of(row: Sequence[Any], sizes: FileSizes) -> LeafSpec:
    if row[0] != "array":
        return Static(_VALUES[row[0]], _VALUES[row[0]](row[1]))
    _, dtype, shape, weak = row
    weaks: dict[Any, Any] = {None: None, "int": int, "float": float, "complex": complex}
    return ArraySpec(TensorType(tuple(map(sizes.value, shape)), DTYPES[dtype]), weaks[weak])
