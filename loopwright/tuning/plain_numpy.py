"""Runs a traced function by NumPy, operator by operator, as it ran before it was compiled.

Operators run as NumPy's own functions or a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, cast

import numpy as np

from ..codegen.runtime.blas import own_thread
from ..codegen.runtime.buffers import ArraySpec
from ..ir.graph.nodes import Atom, Call, Constant, GlobalVar, Module, Tuple, TupleGetItem, Var
from ..ir.graph.structural import structural_hash
from ..ir.graph.walk import nested_blocks

__all__ = ["PlainNumpy", "numpy_name", "program_key"]

Array = np.ndarray[Any, Any]
_Apply: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]


class PlainNumpy:
    """Replaces an executable: ``call`` and ``direct`` are like those of ``pipeline.Built``.

    With one thread NumPy's library runs on one as well, otherwise on as many as the user has set.
    """

    def __init__(
        self, module: Module, inputs: Sequence[ArraySpec], threads: int | None = None
    ) -> None:
        self._module = module
        self._inputs = tuple(inputs)
        self._alone = threads == 1
        bodies = [b.value.args for b in module.main.body.bindings if isinstance(b.value, Call)]
        self._constants = [a.value for args in bodies for a in args if isinstance(a, Constant)]
        self._apply: dict[int, Any] = {  # ``fits`` says that all operators have a function
            id(b): cast("Any", b.value.op).numpy
            for b in module.main.body.bindings
            if isinstance(b.value, Call)
        }

    @staticmethod
    def fits(module: Module) -> bool:
        """True if NumPy has a function for every operator of a traced module, which is one straight
        line."""
        for binding in module.main.body.bindings:
            value = binding.value
            if nested_blocks(value):
                return False
            if isinstance(value, Call):
                if isinstance(value.op, GlobalVar | Var):
                    return False
                if value.op.numpy is None:
                    return False
        return True

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the results in new arrays, which share memory with no other."""
        main = self._module.main
        values: dict[Atom, Any] = dict(zip(main.params, arrays, strict=True))

        def value_of(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Constant) else values[atom]

        with np.errstate(all="ignore"), own_thread() if self._alone else nullcontext():
            for binding in main.body.bindings:
                value = binding.value
                if isinstance(value, Call):
                    operands = [value_of(a) for a in value.args]
                    result = self._apply[id(binding)](operands, value.attrs)
                elif isinstance(value, Tuple):
                    result = tuple(value_of(a) for a in value.fields)
                elif isinstance(value, TupleGetItem):
                    result = value_of(value.value)[value.index]
                else:
                    result = value_of(value)  # pyright: ignore - all other kinds were refused
                values[binding.var] = result
            results = _flat(value_of(main.body.result))
        # NumPy may return a view of an operand, or the operand itself.
        unshared: list[Array] = []
        for result in results:
            shared = _is_shared(result, (*arrays, *self._constants, *unshared))
            unshared.append(np.array(result, order="C", copy=True if shared else None))
        return unshared

    def direct(self, *arrays: Any) -> list[Array] | None:
        """Like ``call``; returns None, having done nothing, for any other arguments."""
        if len(arrays) != len(self._inputs):
            return None
        for array, spec in zip(arrays, self._inputs):
            if type(array) is not np.ndarray or array.dtype != spec.dtype:
                return None
            if array.shape != spec.shape:
                return None
        return self.call(arrays)


def _flat(value: Any) -> list[Array]:
    if isinstance(value, tuple | list):
        return [array for field in value for array in _flat(field)]
    return [np.asarray(value)]


def _is_shared(result: Array, others: Sequence[Array]) -> bool:
    """True if a result may share memory with an argument, a constant or another result."""
    return result.base is not None or any(result is other for other in others)


def numpy_name() -> str:
    """Returns the name of this NumPy in decisions."""
    return f"NumPy {np.__version__}"


def program_key(module: Module) -> str:
    """Returns 16 hexadecimal digits that identify a traced program."""
    return structural_hash(module)[:16]
