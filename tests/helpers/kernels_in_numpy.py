"""Kernels of the program IR's interpreter, made of NumPy functions."""

from collections.abc import Callable
from typing import Any

from loopwright.ir.dtype import Array
from loopwright.ir.program.interpret import Kernel

__all__ = ["writing"]


def writing(function: Callable[..., Any], outputs: int = 1) -> Kernel:
    """Returns a kernel that writes the results of ``function`` of its first operands to its last.

    ``function`` gives one array, or a sequence of ``outputs`` arrays.
    """

    def kernel(*operands: Array) -> None:
        results = function(*operands[:-outputs])
        for target, result in zip(operands[-outputs:], [results] if outputs == 1 else results):
            target[...] = result

    return kernel
