"""The operators: one declaration each.

``declare`` says how an operator is declared. Type rules share ``ir/graph/type_rules.py``,
composites ``ir/graph/compose.py`` and samples ``sampling``. The declarations::

    elementwise        a row each of the table of scalar operators, cast, clip
    reduce             sum, mean, max, variance, ...
    arg_extreme        argmax, argmin
    matmul, einsum     nn.matmul, nn.dense, contract, einsum, nn.grouped_matmul
    shape, joining     reshape, transpose, broadcast_to, ..., concatenate, stack, split
    index, pad         strided_slice, reverse, take, one_hot, tril, triu, nn.pad
    update             strided_set, index_update
    create             full, iota, arange
    complex            bitcast, complex, real, imag, conj
    activation         nn.relu, nn.gelu, nn.silu, ...
    library            call_library
    stage              stage.map, stage.reduce
    small_systems      solve_small, cholesky_small
    counting           count, true_places, set_size
    gather             nn.gather_nd, dynamic_slice
    search             nn.searchsorted
    sort, top_k        nn.sort, nn.argsort, nn.top_k_indices
    suppress           nn.non_max_suppression
    random             random numbers by counter
    scan, scatter      cumsum, cumprod, nn.scatter_elements, nn.scatter_nd
    quantise           nn.quantize, nn.dequantize, nn.matmul_nbits
    normalise          nn.layer_norm, nn.rms_norm, nn.batch_norm, nn.softmax, nn.log_softmax
    conv, pool         nn.conv2d, nn.max_pool2d, ..., over the primitives in them
    conv_transpose     nn.conv2d_transpose, ...
"""

from ..graph.operator import all_operators, get
from . import (  # noqa: F401  (each declares its operators)
    activation,
    arg_extreme,
    complex,
    conv,
    conv_transpose,
    counting,
    create,
    einsum,
    elementwise,
    gather,
    index,
    joining,
    library,
    matmul,
    normalise,
    pad,
    pool,
    quantise,
    random,
    recurrence,
    reduce,
    scan,
    scatter,
    search,
    shape,
    small_systems,
    sort,
    stage,
    suppress,
    top_k,
    update,
    winograd,
)

__all__ = ["all_operators", "get"]
