"""ONNX models as compiled modules; the extra ``[onnx]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..face.module import CompiledModule
from ..face.user_errors import reports_errors
from ..ir.errors import UnsupportedError
from ..ir.progress_line import progress
from .kept_models import KeptModule, Recipe

if TYPE_CHECKING:
    from ..tracer.frontends.onnx import Constants, Shapes, Source


@reports_errors
def from_onnx(
    model: Source,
    *,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    **options: Any,
) -> CompiledModule:
    """Compiles an ONNX model: a path, the bytes of a file, or an ``onnx.ModelProto``.

    Returns a compiled module, which is called with arrays by position, or with ``run`` by name;
    ``inputs`` and ``outputs`` are the names. ``shapes`` gives the sizes of inputs that the model
    leaves open, ``{"image": (1, 3, 224, 224)}``; a name in the place of a number, ``("n", 3, 224,
    224)``, is a symbolic size, and the code is for all of its values. ``constants`` gives values of
    inputs that are not to be arguments, such as the shape that a model asks for. A sequence is a
    list of arrays, ``{"boxes": [(3, 4), (5, 4)]}`` the shapes of one; an optional is what it holds,
    unless ``constants`` say that it is None. ``options`` are
    those of ``lw.compile``. Compiling happens at the first call, or at ``lower()``.

    Operators have the meaning of the ONNX standard for the opsets that the model names, 7 to the
    newest. Raises UnsupportedError, which lists all operators and attributes of the model that are
    not supported, LoopwrightTypeError if sizes are open, and LoopwrightValueError if the model is
    damaged.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    >>> node = helper.make_node("Relu", ["x"], ["y"])
    >>> f = lw.from_onnx(helper.make_model(helper.make_graph([node], "g", [x], [y])))
    >>> f.run({"x": np.float32([-1, 0, 2])})
    {'y': array([0., 0., 2.], dtype=float32)}
    """
    return imported(model, shapes, constants, **options)


def imported(
    model: Source, shapes: Shapes | None = None, constants: Constants | None = None, **options: Any
) -> CompiledModule:
    """Does what ``from_onnx`` does, for a caller that is not the user's code."""
    what = Path(model).name if isinstance(model, str | Path) else "a model"

    def convert() -> Any:
        with progress(f"importing {what}"):
            return _importer().convert(model, shapes, constants)

    if isinstance(model, str | Path | bytes):
        return KeptModule(Recipe(model, shapes or {}, constants or {}, options, convert))
    module, name, _ = convert()
    return CompiledModule(module, name, **options)


def input_names(model: Source) -> list[str]:
    """Returns the names of a model's inputs, in order."""
    names: list[str] = _importer().input_names(model)
    return names


def _importer() -> Any:
    """Returns the importer of ONNX models; UnsupportedError without the package ``onnx``."""
    try:
        from ..tracer.frontends import onnx
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("onnx", "google"):
            raise
        raise UnsupportedError(
            "ONNX models need the package onnx", hint="pip install loopwright[onnx]"
        ) from None
    return onnx
