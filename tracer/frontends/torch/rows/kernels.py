"""Operators that ATen's own kernels compute: library calls, as those of NumPy's LAPACK are.

They are opaque to the passes, so that a row of operators of the graph is better wherever one is
short. These are iterations of LAPACK, whose vectors have PyTorch's signs that way, functions
without a closed form, and operators whose work is one serial pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .....ir.dims import IntExpr
from .....ir.dtype import dtype_of
from .....ir.errors import LoopwrightValueError, UnsupportedError
from .....ir.library.gufunc import broadcast
from .....ir.library.registry import ArrayType, LibraryFunction, Typed, Values, register
from ....core.emitting import call_library
from ....core.proxy import Proxy
from ..table import aten
from ..tensors import numpy_dtype, tensor_of, torch_dtype

_CALLED: set[str] = set()
"""The names of the operators that have a row."""


def _overload(name: str) -> Any:
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _emitted(target: Any, given: Mapping[str, Any]) -> Any:
    """Emits the call: tensors are operands, by their parameters' names, all else are options."""
    tensors = {n: v for n, v in given.items() if isinstance(v, Proxy | np.ndarray | np.generic)}
    options = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    rest = {n: v for n, v in options.items() if n not in tensors}
    for option, value in rest.items():
        if not isinstance(value, bool | int | float | complex | str | tuple | None):
            raise UnsupportedError(f"{target} with {option}={value} is not supported")
    name = str(target)
    declare(name)
    results = call_library(name, *tensors.values(), tensors=tuple(tensors), **rest)
    return results[0] if len(target._schema.returns) == 1 else results


def declare(name: str) -> None:
    """Declares the library function that calls an operator, ``aten.lgamma.default``.

    Raises LoopwrightValueError for operators without a row here: what a file names is not trusted,
    and others of PyTorch open files.
    """
    if name not in _CALLED:
        raise LoopwrightValueError(f"{name} is not an operator whose kernels are called")
    target = _overload(name.removeprefix("aten."))
    parts = partial(_types, target), partial(_bound, target)
    register(LibraryFunction(name, f"``{name}``, computed by PyTorch.", *parts))


def _run(target: Any, tensors: Sequence[torch.Tensor], options: Mapping[str, Any]) -> Any:
    rest = {name: value for name, value in options.items() if name != "tensors"}
    results = target(**dict(zip(options["tensors"], tensors, strict=True)), **rest)
    return results if isinstance(results, tuple | list) else (results,)


def _types(
    target: Any, operands: Sequence[Typed], options: Mapping[str, Any]
) -> Sequence[ArrayType]:
    """Returns what PyTorch gives for tensors without values; symbolic sizes of operators that
    compute element by element broadcast."""
    shape: tuple[IntExpr, ...] | None = None
    sizes = [tuple(o.shape) for o in operands]
    if not all(isinstance(n, int) for each in sizes for n in each):
        if torch.Tag.pointwise not in target.tags:
            raise UnsupportedError(f"{target} of symbolic sizes is not supported")
        shape = ()
        for each in sizes:
            shape = broadcast(shape, each)
        sizes = [(1,) * len(each) for each in sizes]
    with FakeTensorMode():
        pairs = zip(sizes, operands)
        tensors = [torch.empty(s, dtype=torch_dtype(o.dtype.numpy)) for s, o in pairs]  # type: ignore[arg-type]
        results = _run(target, tensors, options)
    return [
        ArrayType(tuple(r.shape) if shape is None else shape, dtype_of(numpy_dtype(r.dtype)))
        for r in results
    ]


def _bound(target: Any, options: Mapping[str, Any], count: int) -> Values:
    def call(*arrays: Any) -> None:
        tensors = [tensor_of(a) for a in arrays[:count]]
        results = _run(target, tensors, options)
        pairs = [*zip(arrays[count:], results, strict=True)]
        if any(array.shape != result.shape for array, result in pairs):
            # A short cut of narrow floats (embedding bags) that PyTorch's own types do not say.
            wide = [t.double() if t.is_floating_point() else t for t in tensors]
            pairs = [*zip(arrays[count:], _run(target, wide, options), strict=True)]
        for array, result in pairs:
            tensor_of(array).copy_(result)

    return call


def _enter(names: str, **primitives: str) -> None:
    """Enters operators by overloads, ``default`` if a name has none. ``primitives`` are PyTorch's
    own names of some in the graphs that decompositions make."""
    for name in names.split():
        full = name if "." in name else f"{name}.default"
        target, base = _overload(full), primitives.get(name, name)
        _CALLED.add(str(target))
        row = [full, *[f"prims.{base}.default"] * hasattr(torch.ops.prims, base)]

        def call(*args: Any, target: Any = target, **kwargs: Any) -> Any:
            names = [argument.name for argument in target._schema.arguments]
            return _emitted(target, dict(zip(names, args)) | kwargs)

        aten(*row)(call)


_enter(  # special functions
    """
    digamma erfinv i0 igamma igammac lgamma polygamma special_airy_ai special_bessel_j0
    special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t
    special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w
    special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1
    special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta
    """,
    erfinv="erf_inv",
    i0="bessel_i0",
    special_bessel_j0="bessel_j0",
    special_bessel_j1="bessel_j1",
    special_erfcx="erfcx",
    special_i0e="bessel_i0e",
    special_i1="bessel_i1",
    special_i1e="bessel_i1e",
    special_ndtri="ndtri",
    special_spherical_bessel_j0="spherical_bessel_j0",
    special_zeta="zeta",
)
_enter(  # linear algebra
    """
    _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky cholesky_inverse
    cholesky_solve geqrf linalg_cholesky_ex linalg_eig linalg_householder_product linalg_inv_ex
    linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex linalg_lu_solve
    linalg_matrix_exp linalg_pinv.atol_rtol_tensor linalg_qr linalg_solve_triangular lu_unpack ormqr
    triangular_solve
    """
)
_enter(  # distances, losses, histograms, bags, segments
    """
    _cdist_backward _cdist_forward _ctc_loss _ctc_loss.Tensor _ctc_loss_backward
    _ctc_loss_backward.Tensor _embedding_bag _embedding_bag_backward _embedding_bag_dense_backward
    _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward
    _pdist_backward _pdist_forward _segment_reduce_backward fractional_max_pool2d
    fractional_max_pool2d_backward fractional_max_pool3d fractional_max_pool3d_backward hash_tensor
    histc histogram.bin_ct histogram.bins_tensor mode multi_margin_loss_backward
    multilabel_margin_loss_backward segment_reduce
    """
)
