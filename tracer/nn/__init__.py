"""``lw.nn``: what neural networks need and NumPy lacks.

The functions take NumPy arrays or traced ones. On plain arrays they compute at once, with the
operator's NumPy reference; in a compiled function they become one operator each. A function that
adds nothing to its operator is not written here: it is made from the operator's declaration.

>>> import numpy as np
>>> from loopwright import nn
>>> nn.relu(np.float32([-1, 0, 2])).tolist()
[0.0, 0.0, 2.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.graph.operator import Operator
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.ops import all_operators
from .apply import declared
from .attention import rotary_embedding, scaled_dot_product_attention
from .basic import dense, grouped_matmul, one_hot, pad
from .convolution import conv, conv1d, conv2d, conv3d, conv_transpose
from .indexing import gather_nd, scatter_elements, scatter_nd, top_k
from .nbits import matmul_nbits, pack_nbits
from .norms import (
    batch_norm_training,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    lp_normalize,
    rms_norm,
)
from .pooling import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    avg_pool2d,
    lp_pool,
    max_pool,
    max_pool2d,
    max_pool_with_indices,
)
from .quantising import dequantize, quantize
from .recurrent import gru, lstm, rnn
from .resizing import resize
from .sampling import affine_grid, deform_conv2d, grid_sample, roi_align

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A function made from its operator's declaration."""


# fmt: off
__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "affine_grid", "avg_pool", "avg_pool2d",
    "batch_norm_training", "conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "deform_conv2d",
    "dense", "dequantize", "gather_nd", "grid_sample", "group_norm", "grouped_matmul", "gru",
    "instance_norm", "layer_norm", "local_response_norm", "lp_normalize", "lp_pool", "lstm",
    "matmul_nbits", "max_pool", "max_pool2d", "max_pool_with_indices", "one_hot", "pack_nbits",
    "pad", "quantize", "resize", "rms_norm", "rnn", "roi_align", "rotary_embedding",
    "scaled_dot_product_attention", "scatter_elements", "scatter_nd", "top_k",
]
# fmt: on


def _is_ours(op: Operator) -> bool:
    """True if NumPy has no function that stands for ``op``."""
    row = SCALAR_OPS.get(op.name)
    return op.name.startswith("nn.") if row is None else row.is_ours


_DECLARED = {
    name: declared(op)
    for op in all_operators().values()
    if _is_ours(op) and (name := op.name.removeprefix("nn.")) not in __all__
}
globals().update(_DECLARED)
__all__ += _DECLARED  # pyright: ignore[reportUnsupportedDunderAll]
