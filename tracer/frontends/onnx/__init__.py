"""ONNX models become modules: ``read_model``, ``check``, then ``convert``.

::

    table     @converter: which function stands for which operator, from which opset on
    reader    a path, bytes or ModelProto; opsets, functions
    tensors   tensors as arrays, external ones mapped from their files
    survey    everything that is not supported, in one error
    places    nodes as lines of a listing, to which spans point
    walk      nodes in order: known values are computed, others traced
    convert   a model's inputs and outputs; the module

    elementwise, shapes, linear, reduce, control, quantised: converters by family
"""

from . import elementwise, linear, shapes
from .convert import Shapes, Source, convert
from .table import Value, converter, is_known, known

__all__ = [
    "Shapes",
    "Source",
    "Value",
    "convert",
    "converter",
    "elementwise",
    "is_known",
    "known",
    "linear",
    "shapes",
]
