"""The rules of the graph IR, checked: what a pass hands on must still be a program.

Every variable is bound once and before it is used, and so is every size that data decides; every
type is what the operator's type rule gives, global functions exist and are called with their
signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from ..dtype import INT64
from ..errors import InternalError, LoopwrightError, LoopwrightTypeError
from ..loop.prim import PrimFunc
from . import nodes
from .builder import BOOL_SCALAR, Builder, carry_type
from .exhaustive import missing_case
from .printer import as_text
from .requirements import assuming
from .types import (
    FuncType,
    TensorType,
    TupleType,
    Type,
    bind_types,
    instantiate,
    is_instance,
    sizes_in,
    substitute_type,
)
from .walk import nested_blocks, nested_params, operands, set_by, setters, sizes_used

_WINDOW = 12  # lines shown on either side of what is wrong in a long function
_Checked = TypeVar("_Checked", nodes.Module, nodes.Function)
_T = TypeVar("_T")


def verify(program: _Checked) -> _Checked:
    """Return ``program`` if it keeps the rules; raise InternalError with its text if it does not.

    The error shows the function with the node in question marked. A Function on its own may not
    call global functions, since nobody knows their signatures.
    """
    if isinstance(program, nodes.Function):
        _Verifier("fn", program, None).run()
        return program
    for name, function in program.functions.items():
        if isinstance(function, nodes.Function):
            _Verifier(f"@{name}", function, program).run()
    return program


def signature_of(function: nodes.Function | PrimFunc) -> FuncType:
    """Returns the type under which a module's function is called."""
    if isinstance(function, nodes.Function):
        return function.type
    params = tuple(TensorType(b.shape, b.dtype) for b in function.params)
    results = tuple(TensorType(b.shape, b.dtype) for b in function.output_buffers)
    return FuncType(params, results[0] if len(results) == 1 else TupleType(results))


class _Verifier:
    def __init__(self, name: str, function: nodes.Function, module: nodes.Module | None) -> None:
        self.name, self.function, self.module = name, function, module
        self.scope: set[nodes.Var] = set()  # what may be used here
        self.bound: set[nodes.Var] = set()  # what was bound anywhere in the function
        self.unset = setters(function)  # sizes that data decides below

    def run(self) -> None:
        with assuming(self.function.requirements):
            self._function(self.function)

    def _function(self, function: nodes.Function) -> None:
        for param in function.params:
            self._bind(param, function)
        self._block(function.body)
        self.scope.difference_update(function.params)

    def _block(self, block: nodes.Block) -> None:
        for binding in block.bindings:
            var, value = binding.var, binding.value
            inferred = self._infer(value, var)
            if inferred != var.type and not is_instance(var.type, inferred):
                self._fail(var, f"%{var.name} is said to be {var.type}, its value is {inferred}")
            self._bind(var, var)
            self._sizes(var, value)
        self._use(block.result, block.result)
        self.scope.difference_update(b.var for b in block.bindings)

    def _bind(self, var: nodes.Var, where: object) -> None:
        if var in self.bound:
            self._fail(where, f"%{var.name} is bound twice")
        if any(isinstance(size, int) and size < 0 for size in sizes_in(var.type)):
            self._fail(where, f"%{var.name} is {var.type}, and a size cannot be negative")
        self.bound.add(var)
        self.scope.add(var)

    def _sizes(self, var: nodes.Var, value: nodes.Expr) -> None:
        for name in set_by(value):
            if self.unset.pop(name, None) is not var:
                self._fail(var, f"the size {name} is set twice")
        for name in self.unset and sizes_used(var, value):
            if name in self.unset:
                self._fail(var, f"the size {name} is used before it is set")

    def _use(self, atom: nodes.Atom, where: object) -> Type:
        if isinstance(atom, nodes.Constant):
            return atom.type
        if isinstance(atom, nodes.GlobalVar):
            self._global(atom, where)
        elif atom not in self.scope:
            reason = "before it is bound or out of its scope" if atom in self.bound else "unbound"
            self._fail(where, f"%{atom.name} is used {reason}")
        return atom.type

    def _global(self, atom: nodes.GlobalVar, where: object) -> None:
        if isinstance(atom, nodes.Constructor):
            data = self.module.types.get(atom.data) if self.module is not None else None
            if data is None or all(atom.name != c.name for c in data.constructors):
                self._fail(where, f"there is no constructor {atom.name}")
            return
        callee = self.module.functions.get(atom.name) if self.module is not None else None
        if callee is None:
            self._fail(where, f"there is no function @{atom.name}")
        signature = signature_of(callee)
        if signature != atom.type and not is_instance(atom.type, signature):
            self._fail(where, f"@{atom.name} is {signature}, not {atom.type}")

    def _infer(self, value: nodes.Expr, var: nodes.Var) -> Type:
        if isinstance(value, nodes.Call):
            return self._infer_call(value, var)
        if isinstance(value, nodes.Tuple):
            return TupleType(tuple(self._use(f, var) for f in value.fields))
        if isinstance(value, nodes.TupleGetItem):
            kind = self._use(value.value, var)
            if not isinstance(kind, TupleType) or not 0 <= value.index < len(kind.fields):
                self._fail(var, f"{kind} has no field {value.index}")
            return kind.fields[value.index]
        if isinstance(value, nodes.If):
            return self._infer_if(value, var)
        if isinstance(value, nodes.While | nodes.For):
            return self._infer_loop(value, var)
        if isinstance(value, nodes.Function):
            self._function(value)
            return value.type
        if isinstance(value, nodes.Match):
            return self._infer_match(value, var)
        if isinstance(value, nodes.Ref):
            types = [self._use(a, var) for a in value.args]
            return self._checked(lambda: Builder().reference_type(value.kind, types), var)
        return self._use(value, var)

    def _infer_call(self, call: nodes.Call, var: nodes.Var) -> Type:
        types = tuple(self._use(a, var) for a in call.args)
        if isinstance(call.op, nodes.GlobalVar | nodes.Var):
            signature = self._use(call.op, var)
            if not isinstance(signature, FuncType):
                self._fail(var, f"{call.op.name} is called but has type {signature}")
            result = instantiate(signature, types, var.type)
            if result is None:
                self._fail(var, f"{call.op.name} takes {_listed(signature.params)}")
            return result
        op = call.op
        if self._checked(lambda: op.complete_attrs(call.attrs), var) != dict(call.attrs):
            self._fail(var, f"the attributes of {op.name} are not complete")
        return self._checked(lambda: op.infer(types, call.attrs), var)

    def _checked(self, rule: Callable[[], _T], var: nodes.Var) -> _T:
        """Returns what a rule gives, whose errors are those of the module."""
        try:
            return rule()
        except InternalError:
            raise
        except LoopwrightError as error:
            self._fail(var, error.message)

    def _infer_match(self, match: nodes.Match, var: nodes.Var) -> Type:
        subject = self._use(match.value, var)
        types = self.module.types if self.module is not None else {}
        results: list[Type] = []
        for case in match.cases:
            self._pattern(case.pattern, subject, types, var)
            self._block(case.block)
            results.append(case.block.result.type)
            self.scope.difference_update(nodes.pattern_variables(case.pattern))
        for result in results:
            if result != results[0]:
                self._fail(var, f"the cases differ: {results[0]} and {result}")
        missing = missing_case(match.cases, subject, types) if match.complete else None
        if missing is not None:
            self._fail(var, f"no case for {missing}")
        return results[0]

    def _pattern(
        self,
        pattern: nodes.Pattern,
        subject: Type,
        types: Mapping[str, nodes.DataDef],
        where: nodes.Var,
    ) -> None:
        """Checks that a pattern is one for values of a type, and binds its variables."""
        if isinstance(pattern, nodes.Var):
            if pattern.type != subject:
                self._fail(where, f"%{pattern.name} is {pattern.type} for a value of {subject}")
            self._bind(pattern, where)
        if not isinstance(pattern, nodes.ConstructorPattern):
            return
        made = pattern.constructor
        if made is None:
            fields = subject.fields if isinstance(subject, TupleType) else None
        else:
            data = types.get(made.data)
            is_one = data is not None and any(made.name == c.name for c in data.constructors)
            given = bind_types([made.type.result], [subject]) if is_one else None
            fields = given and [substitute_type(f, {}, given[1]) for f in made.type.params]
        if fields is None or len(fields) != len(pattern.fields):
            self._fail(where, f"a pattern of {made.name if made else 'a tuple'} for {subject}")
        for inner, kind in zip(pattern.fields, fields):
            self._pattern(inner, kind, types, where)

    def _infer_if(self, value: nodes.If, var: nodes.Var) -> Type:
        kind = self._use(value.condition, var)
        if kind != BOOL_SCALAR:
            self._fail(var, f"a condition is a bool scalar, this is {kind}")
        self._block(value.then)
        self._block(value.orelse)
        then, orelse = value.then.result.type, value.orelse.result.type
        if then != orelse:
            self._fail(var, f"the branches differ: {then} and {orelse}")
        return then

    def _infer_loop(self, value: nodes.While | nodes.For, var: nodes.Var) -> Type:
        for atom in operands(value):
            self._use(atom, var)
        params = nested_params(value)
        for param in params:
            self._bind(param, var)
        for block in nested_blocks(value):
            self._block(block)
        self.scope.difference_update(params)
        if isinstance(value, nodes.While) and value.condition.result.type != BOOL_SCALAR:
            self._fail(var, f"a condition is a bool scalar, not {value.condition.result.type}")
        for count in (value.index, value.extent) if isinstance(value, nodes.For) else ():
            if count.type != TensorType((), INT64):
                self._fail(var, f"a loop counts in int64, not {count.type}")
        try:
            return carry_type(value.params, value.initial, value.body)
        except LoopwrightTypeError as error:
            self._fail(var, error.message)

    def _fail(self, where: object, message: str) -> NoReturn:
        lines = as_text(self.function, marks={where: message}).splitlines()
        center = next((i for i, line in enumerate(lines) if "/* <-- " in line), 0)
        nearby = lines[max(0, center - _WINDOW) : center + _WINDOW + 1]
        raise InternalError(f"{self.name} is not a valid function: {message}", notes=tuple(nearby))


def _listed(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"
