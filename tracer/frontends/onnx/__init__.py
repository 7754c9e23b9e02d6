"""ONNX models become modules: ``read_model``, ``check``, then ``convert``.

::

    table     @converter: which function stands for which operator, from which opset on
    reader    a path, bytes or ModelProto; opsets, functions
    tensors   tensors as arrays, external ones mapped from their files
    survey    everything that is not supported, in one error
    places    nodes as lines of a listing, to which spans point
    walk      nodes in order: known values are computed, others traced
    convert   a model's inputs and outputs; the module

    and the converters, by family: contrib and nbits are of ``com.microsoft``, ml and trees of
``ai.onnx.ml``, legacy of opsets before 7
"""

from . import (
    attention,
    contrib,
    contrib_attention,
    control,
    conv,
    elementwise,
    grams,
    indexing,
    legacy,
    linear,
    ml,
    nbits,
    norm,
    pool,
    quantised,
    recurrent,
    reduce,
    resize,
    shapes,
    signal,
    svm,
    trees,
    vision,
)
from .convert import Constants, Shapes, Source, convert, input_names
from .table import NotKnownError, Value, converter, is_known, known

__all__ = [
    "Constants",
    "NotKnownError",
    "Shapes",
    "Source",
    "Value",
    "attention",
    "contrib",
    "contrib_attention",
    "control",
    "conv",
    "convert",
    "converter",
    "elementwise",
    "grams",
    "indexing",
    "input_names",
    "is_known",
    "known",
    "legacy",
    "linear",
    "ml",
    "nbits",
    "quantised",
    "recurrent",
    "reduce",
    "resize",
    "norm",
    "pool",
    "shapes",
    "signal",
    "svm",
    "trees",
    "vision",
]
