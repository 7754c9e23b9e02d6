"""A traced function run by NumPy, operator by operator: what users had before they compiled it.

Operators are their references, which are NumPy's own functions or a few of them; where a reference
is there for the sake of accuracy, what NumPy's users would write stands in ``_INSTEAD``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np

from ..codegen.runtime.blas import own_thread
from ..codegen.runtime.buffers import ArraySpec
from ..ir.graph.nodes import Atom, Call, Constant, GlobalVar, If, Module, Tuple, TupleGetItem, Var
from ..ir.graph.nodes import Function as GraphFunction
from ..ir.graph.structural import structural_hash

__all__ = ["PlainNumpy", "numpy_name", "program_key"]

Array = np.ndarray[Any, Any]
_Apply: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]

_OWN = "nn."
"""Operators of that kind are ours: what defines them is slow and plain."""

_INSTEAD: dict[str, _Apply] = {"nn.matmul": lambda arrays, attrs: np.matmul(*arrays)}


class PlainNumpy:
    """Stands in for an executable: ``call`` and ``direct`` are as those of ``pipeline.Built``.

    With one of ``threads`` NumPy's library runs on one as well; else as the user has set it.
    """

    def __init__(
        self, module: Module, inputs: Sequence[ArraySpec], threads: int | None = None
    ) -> None:
        self._module = module
        self._inputs = tuple(inputs)
        self._alone = threads == 1
        bodies = [b.value.args for b in module.main.body.bindings if isinstance(b.value, Call)]
        self._constants = [a.value for args in bodies for a in args if isinstance(a, Constant)]
        self._apply = {
            id(b): _function(b.value.op)
            for b in module.main.body.bindings
            if isinstance(b.value, Call)
        }

    @staticmethod
    def fits(module: Module) -> bool:
        """Whether NumPy has a function for every operator of a traced module."""
        for binding in module.main.body.bindings:
            value = binding.value
            if isinstance(value, If | GraphFunction):
                return False
            if isinstance(value, Call):
                if isinstance(value.op, GlobalVar | Var):
                    return False
                if value.op.name.startswith(_OWN) and value.op.name not in _INSTEAD:
                    return False
        return True

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """The results: new arrays that nobody else has."""
        main = self._module.main
        known: dict[Atom, Any] = dict(zip(main.params, arrays, strict=True))

        def value_of(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Constant) else known[atom]

        with np.errstate(all="ignore"), own_thread() if self._alone else nullcontext():
            for binding in main.body.bindings:
                value = binding.value
                if isinstance(value, Call):
                    operands = [value_of(a) for a in value.args]
                    found = self._apply[id(binding)](operands, value.attrs)
                elif isinstance(value, Tuple):
                    found = tuple(value_of(a) for a in value.fields)
                elif isinstance(value, TupleGetItem):
                    found = value_of(value.value)[value.index]
                else:
                    found = value_of(value)  # pyright: ignore - there is nothing else in it
                known[binding.var] = found
            results = _flat(value_of(main.body.result))
        # An operator that only turns its operand may answer with a part of it, or with itself.
        own: list[Array] = []
        for result in results:
            shared = _is_shared(result, (*arrays, *self._constants, *own))
            own.append(np.array(result, order="C", copy=True if shared else None))
        return own

    def direct(self, *arrays: Any) -> list[Array] | None:
        """The same; None, having done nothing, for anything but arrays that fit exactly."""
        if len(arrays) != len(self._inputs):
            return None
        for array, spec in zip(arrays, self._inputs):
            if type(array) is not np.ndarray or array.dtype != spec.dtype:
                return None
            if array.shape != spec.shape:
                return None
        return self.call(arrays)


def _function(op: Any) -> _Apply:
    instead = _INSTEAD.get(op.name)
    return op.reference if instead is None else instead


def _flat(value: Any) -> list[Array]:
    if isinstance(value, tuple | list):
        return [array for field in value for array in _flat(field)]
    return [np.asarray(value)]


def _is_shared(result: Array, others: Sequence[Array]) -> bool:
    """Whether somebody else may have a result's memory: an argument, a constant, another result."""
    return result.base is not None or any(result is other for other in others)


def numpy_name() -> str:
    """What a decision calls this NumPy."""
    return f"NumPy {np.__version__}"


def program_key(module: Module) -> str:
    """16 hexadecimal digits of a traced program."""
    return structural_hash(module)[:16]
