"""Declaration of operators: one decorated function each.

A **composite** is NumPy-style code over other operators. It is traced when the graph is lowered::

    @composite("nn.silu")
    def _silu(x: Value) -> Value:
        '''x * sigmoid(x).'''
        return x * F.sigmoid(x)

A **primitive** returns the tensor expression of its result: a function from the indices of an
element to that element, a ``Reduce``, or a ``Body`` of statements for what keeps a state::

    @primitive(
        "reverse",
        Pattern.INJECTIVE,
        rule=...,        # types of the operands, attributes -> type of the result
        reference=...,   # arrays, attributes -> array
        samples=...,     # random generator -> samples
    )
    def _reverse(out: TensorType, x: Tensor, *, axis: Axes = attr("axes", None)) -> Element:
        '''The elements in reverse order along axes. ...'''

In both, the parameters are the operands, the keyword-only parameters are the attributes, and the
docstring is the documentation: a sentence, the rules, and an example in graph IR. ``rule`` and
``reference`` take operands and attributes in the same way; the errors of a rule need not name the
operator. What an elementwise operator of one operand leaves out is derived: rest of the
documentation, type rule, samples, and for a composite the reference.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..dims import IntExpr
from ..dtype import BOOL, DTYPES, FLOAT32, DType, Kind, dtype_of
from ..errors import InternalError, LoopwrightError
from ..graph.builder import Builder
from ..graph.compose import Value
from ..graph.evaluate import evaluate
from ..graph.nodes import Atom
from ..graph.operator import REQUIRED, Algorithm, Attr, Operator, Pattern, Sample, register
from ..graph.type_rules import ANY, Attrs, require_kind, same_dtype, tensors
from ..graph.types import TensorType, Type
from ..loop.expr import Expr
from ..loop.nest import Stmt
from ..loop.prim import Buffer
from ..loop.tensor import Map, Reduction, Statements, Tensor
from ..traits import Trait, with_implied
from .sampling import elementwise_samples

Element: TypeAlias = Callable[..., Expr]
Rule: TypeAlias = Callable[..., Type]
Reference: TypeAlias = Callable[..., Any]
BatchRule: TypeAlias = Callable[[Any], Any] | str
TangentRule: TypeAlias = Callable[[Any], Any]
TransposeRule: TypeAlias = Callable[[Any], None]
Samples: TypeAlias = "Callable[[np.random.Generator], Sequence[Sample]]"  # loads numpy.random


PerAxis: TypeAlias = Any
"""The annotation of an attribute that is a tuple with one entry per axis of the operand."""

Ints: TypeAlias = Any
"""The annotation of an attribute that is an int or a tuple of ints."""


class Reduce(NamedTuple):
    """The meaning of a reduction: ``combiner`` over the axes of sizes ``over`` of ``element``.

    ``element`` takes the indices of the result, then one index per reduced axis.
    """

    combiner: str
    over: tuple[IntExpr, ...]
    element: Element


class Body(NamedTuple):
    """The meaning of an operator with state: statements that write a buffer of a given name.

    Its pattern is OPAQUE: it is a kernel of its own (see ``ir/loop/procedure.py``). With
    ``begins_as`` the buffer has the elements of that operand before the statements run.
    """

    statements: Callable[[str], Sequence[Stmt]]
    workspace: tuple[Buffer, ...] = ()
    begins_as: Tensor | None = None


def attr(doc: str, default: Any = REQUIRED, kind: str = "Any") -> Any:
    """Declares an attribute, as the default of a keyword-only parameter, whose annotation is its
    kind, or in the ``attrs`` that several composites share."""
    return Attr("", doc, default, kind)


def named_rule(name: str) -> Callable[[Any], Any]:
    """Returns the rule of ``batching.py`` of that name, for batches that are complete."""

    def rule(batch: Any) -> Any:
        if not batch.complete:
            return None
        from . import batching  # loaded when it is first needed

        return getattr(batching, name)(batch)

    return rule


def by_parameter(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments by the names of the parameters of ``function``, which have an
    underscore in front if it does not read them."""
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    return {f"_{n}" if f"_{n}" in names else n: v for n, v in options.items()}


def primitive(
    name: str,
    pattern: Pattern,
    *,
    rule: Rule | None = None,
    reference: Reference | None = None,
    samples: Samples,
    dtypes: str = ANY,
    traits: Trait = Trait.NONE,
    cost: float = 1.0,
    batch: BatchRule | None = None,
    linear: slice | None = None,
    tangent: TangentRule | None = None,
    transpose: TransposeRule | None = None,
    not_differentiable: str = "",
    unfold: Callable[..., Any] | None = None,
    maps: bool = False,
    terms: int = 1,
    params: tuple[str, ...] = (),
    doc: str = "",
) -> Callable[[Callable[..., Element | Reduce | Body]], Operator]:
    """Declares a primitive operator; the function's first parameter is the type of the result.

    What the function does not read has an underscore in front, which its name does not have.
    Without ``rule`` the result has the type of the one operand, and without ``reference`` that is
    what ``unfold`` makes of it, in float64. ``params`` and ``doc`` are for operators that differ in
    few words; else both are read off the function.
    """

    def declare(body: Callable[..., Element | Reduce | Body]) -> Operator:
        operands, attrs = (("out", *params), ()) if params else _signature(name, body)

        def compute(
            inputs: Sequence[Tensor], attrs: Attrs, out: TensorType
        ) -> Map | Reduction | Statements:
            meaning = body(out, *inputs, **by_parameter(body, attrs))
            if isinstance(meaning, Body):
                written = meaning.statements
                return Statements(
                    out.shape,
                    out.dtype,
                    lambda name: tuple(written(name)),
                    meaning.workspace,
                    meaning.begins_as,
                )
            if isinstance(meaning, Reduce):
                return Reduction(out.shape, out.dtype, meaning[1], meaning[0], meaning[2])
            return Map(out.shape, out.dtype, meaning)

        return register(
            Operator(
                name=name,
                doc=doc or inspect.getdoc(body) or "",
                params=operands[1:],
                pattern=pattern,
                infer=_infer(name, operands[1:], dtypes, rule or _same_type),
                reference=_reference(reference or _evaluated(unfold)),
                samples=samples,
                attrs=attrs,
                compute=compute,
                dtypes=dtypes,
                cost=cost,
                batch=named_rule(batch) if isinstance(batch, str) else batch,
                linear=linear,
                tangent=tangent,
                transpose=transpose,
                not_differentiable=not_differentiable,
                unfold=unfold,
                maps=maps,
                terms=terms,
                traits=with_implied(traits),
            )
        )

    return declare


def composite(
    name: str,
    pattern: Pattern = Pattern.ELEMENTWISE,
    *,
    rule: Rule | None = None,
    reference: Reference | None = None,
    samples: Samples | None = None,
    dtypes: str = "f",
    traits: Trait = Trait.NONE,
    algorithms: Callable[..., Sequence[Algorithm]] | None = None,
    batch: BatchRule | None = None,
    tangent: TangentRule | None = None,
    transpose: TransposeRule | None = None,
    not_differentiable: str = "",
    doc: str = "",
    attrs: Mapping[str, Attr] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Operator]:
    """Declares an operator that consists of others; the function takes and returns ``Value``\\ s.

    Without ``rule`` the result has the type that the traced function gives. Without ``reference``
    that is the traced function in float64, and without ``samples`` they are drawn for one operand
    of any shape. ``attrs`` are the attributes of a function that takes them as ``**attrs``.
    """

    def declare(body: Callable[..., Any]) -> Operator:
        params, declared = _signature(name, body)
        text = doc or inspect.getdoc(body) or ""
        if "\n" not in text and pattern == Pattern.ELEMENTWISE:
            text = elementwise_doc(name, text, params, dtypes)

        # Without a rule or reference, they are derived from tracing the body.
        def decompose(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
            result = body(*(Value(b, a) for a in args), **attrs)
            if isinstance(result, Value):
                return result.atom
            return b.make_tuple([part.atom for part in result])

        def traced_type(*types: TensorType, **attrs: Any) -> Type:
            b = Builder()
            return decompose(b, [b.param(f"x{n}", t) for n, t in enumerate(types)], attrs).type

        return register(
            Operator(
                name=name,
                doc=text,
                params=params,
                pattern=pattern,
                infer=_infer(name, params, dtypes, rule or traced_type),
                reference=_reference(reference or _evaluated(decompose)),
                samples=samples or (lambda rng: elementwise_samples(rng, dtypes)),
                attrs=(*declared, *(replace(a, name=n) for n, a in attrs.items())),
                decompose=decompose,
                dtypes=dtypes,
                algorithms=algorithms,
                batch=named_rule(batch) if isinstance(batch, str) else batch,
                tangent=tangent,
                transpose=transpose,
                not_differentiable=not_differentiable,
                traits=with_implied(traits),
            )
        )

    return declare


def _evaluated(decompose: Callable[..., Any] | None) -> Reference:
    """Returns the reference that evaluates what an operator consists of."""

    def reference(*arrays: Any, **attrs: Any) -> Any:
        assert decompose is not None
        b = Builder()
        types = [TensorType(a.shape, dtype_of(a.dtype)) for a in arrays]
        result = decompose(b, [b.param(f"x{n}", t) for n, t in enumerate(types)], attrs)
        return evaluate(b.function(result), *arrays)

    return in_float64(reference)


_WIDEST = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def in_float64(reference: Reference) -> Reference:
    """Returns ``reference`` computed in float64, or complex128, and rounded to the dtype of the
    first operand."""

    def rounded(*arrays: Any, **attrs: Any) -> Any:
        kinds = ("f" if dtype_of(a.dtype).is_float else a.dtype.kind for a in arrays)
        wide = [a.astype(_WIDEST.get(kind, a.dtype)) for kind, a in zip(kinds, arrays)]
        result = np.asarray(reference(*wide, **attrs))
        dtype = dtype_of(arrays[0].dtype)
        return result.astype(dtype.numpy if result.dtype.kind == "c" else dtype.part.numpy)

    return rounded


def _signature(name: str, body: Any) -> tuple[tuple[str, ...], tuple[Attr, ...]]:
    """Returns the operands and the attributes that the parameters of ``body`` declare."""
    # From the code object: inspect.signature took a tenth of the time to import the package.
    code = body.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    params = tuple(p.lstrip("_") for p in code.co_varnames[: code.co_argcount])
    if body.__defaults__:
        raise InternalError(
            f"operator {name}: the parameter {params[-len(body.__defaults__)]} has a default, so "
            "it is an attribute; attributes are keyword-only: put * in front"
        )
    if code.co_flags & inspect.CO_VARARGS:
        params = (*params, f"*{code.co_varnames[last]}")
    attrs: list[Attr] = []
    for attr_name in code.co_varnames[code.co_argcount : last]:
        default = (body.__kwdefaults__ or {}).get(attr_name, REQUIRED)
        given = default if isinstance(default, Attr) else Attr("", "", default)
        annotation = inspect.formatannotation(body.__annotations__.get(attr_name, Any)).strip("'")
        attrs.append(Attr(attr_name.lstrip("_"), given.doc, given.default, annotation))
    return params, tuple(attrs)


def _infer(
    name: str, params: Sequence[str], dtypes: str, rule: Rule
) -> Callable[[tuple[Type, ...], Attrs], Type]:
    """Returns the type rule that checks number and dtypes of operands, then applies ``rule``."""
    count = None if params and params[-1].startswith("*") else len(params)

    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        try:
            operands = tensors(types, count)
            if any(t.dtype.is_complex for t in operands) and Kind.COMPLEX not in dtypes:
                from ..graph.pairs import require_pair_rule  # loaded when it is first needed

                require_pair_rule(name, operands)
                if dtypes != ANY:
                    same_dtype(operands)
            elif dtypes != ANY:
                same_dtype(operands)
                require_kind(dtypes, operands)
            return rule(*operands, **attrs)
        except LoopwrightError as error:
            error.message = f"{name}: {error.message}"
            error.args = (error.message,)
            raise

    return infer


def _same_type(x: TensorType, **_: Any) -> TensorType:
    return x


def _reference(reference: Reference) -> Callable[[Sequence[Any], Mapping[str, Any]], Any]:
    """Returns ``reference`` without NumPy's warnings; its results are arrays."""

    def compute(arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            result = reference(*arrays, **attrs)
        return result if isinstance(result, tuple) else np.asarray(result)

    return compute


_DOC_WIDTH = 96


def operator_doc(text: str, rules: str, signature: str, call: str) -> str:
    """Returns the documentation of an operator, put together from parts.

    The first sentence of ``text`` is the summary; the rest of it stands before ``rules``. The
    example is the function of ``signature`` whose body is ``call``.

    >>> print(operator_doc("Sum. It wraps.", "Any shape.", "fn (%x: int8) -> int8", "sum(%x)"))
    Sum.
    <BLANKLINE>
    It wraps. Any shape.
    <BLANKLINE>
        fn (%x: int8) -> int8 {
          sum(%x)
        }
    <BLANKLINE>
    """
    summary, dot, rest = text.partition(". ")
    body = _wrapped(f"{rest} {rules}")
    return f"{summary}{dot.strip()}\n\n{body}\n\n    {signature} {{\n      {call}\n    }}\n"


DTYPE_WORDS = {
    "biuf": "any dtype",
    "iuf": "integers or floats",
    "iu": "integers",
    "f": "float32 or float64",
    "u": "uint32 or uint64",
    "biu": "integers or bool",
    "b": "bool",
}


def elementwise_doc(
    name: str,
    text: str,
    params: Sequence[str],
    kinds: str,
    *,
    result: Callable[[DType], DType] = lambda dtype: dtype,
) -> str:
    """Returns the documentation of an elementwise operator that computes what ``text`` says."""
    dtype = {"b": "bool", "u": "uint32"}.get(kinds, "float32" if "f" in kinds else "int32")
    shape = "``x`` of any shape; the result has the same shape."
    errors = ""
    if len(params) > 1:
        shape = "Operands are broadcast as in NumPy and have equal dtypes."
        errors = ", different dtypes, or shapes that do not broadcast"
    if params[0] == "condition":
        shape += " ``condition`` is bool."
    typed = [f"%{p}: Tensor[(7), {'bool' if p == 'condition' else dtype}]" for p in params]
    signature = ", ".join(typed)
    if len(params) > 2:
        signature = "\n      " + ",\n      ".join(typed) + "\n    "
    given = DTYPES[dtype]
    made = result(given)
    word = {given: "the operands' dtype", BOOL: "bool", FLOAT32: "float32 or float64"}.get(
        made, "uint32 or uint64"
    )
    return operator_doc(
        text,
        f"{shape} Dtypes: {DTYPE_WORDS[kinds]}; result: {word}. "
        f"LoopwrightTypeError for another dtype{errors}.",
        f"fn ({signature}) -> Tensor[(7), {made}]",
        f"{name}({', '.join(f'%{p}' for p in params)})",
    )


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _DOC_WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
