"""Functions that are not supported, and why."""

from __future__ import annotations

from .rows import reason

__all__ = ["REASONS"]

REASONS = [
    reason(
        "reads or writes files and bytes, which a compiled function does not do: call it on the "
        "arguments or on the result",
        "np.load np.loadtxt np.genfromtxt np.fromfile np.fromregex np.fromstring np.frombuffer "
        "np.save np.savetxt np.savez np.savez_compressed ndarray.tofile ndarray.tobytes "
        "ndarray.dump ndarray.dumps",
    ),
    reason(
        "makes text of values, which are not known while tracing",
        "np.array2string np.array_repr np.array_str np.format_float_positional "
        "np.format_float_scientific np.base_repr np.binary_repr np.datetime_as_string",
    ),
    reason(
        "takes dates or times, which are no dtypes here",
        "np.busday_count np.busday_offset np.is_busday np.datetime_data np.isnat",
    ),
    reason(
        "makes a np.matrix, whose operators mean something else",
        "np.asmatrix np.bmat",
    ),
    reason(
        "has nothing to do with the values of arrays: NumPy's own runs while tracing",
        "np.can_cast np.promote_types np.issubdtype np.isdtype np.common_type np.mintypecode "
        "np.typename np.get_include np.get_printoptions np.set_printoptions np.printoptions "
        "np.getbufsize np.setbufsize np.geterr np.seterr np.geterrcall np.seterrcall np.errstate "
        "np.info np.show_config np.show_runtime np.test np.linalg.test np.fft.test "
        "np.broadcast_shapes",
    ),
    reason(
        "the memory of a traced array is not there to look at",
        "np.shares_memory np.may_share_memory ndarray.base ndarray.ctypes ndarray.data "
        "ndarray.flags ndarray.setflags ndarray.getfield ndarray.setfield ndarray.to_device "
        "ndarray.byteswap np.from_dlpack np.nested_iters np.isfortran",
    ),
    reason(
        "how many elements the result has depends on values, and sizes are known while tracing",
        "np.trim_zeros np.roots np.polydiv np.real_if_close",
    ),
    reason(
        "makes Python objects, one for each element",
        "np.frompyfunc np.fromiter",
    ),
    reason(
        "says how NumPy would compute, and computes nothing",
        "np.einsum_path np.min_scalar_type",
    ),
    reason(
        "the size of an array is a part of its type: np.reshape or np.pad make another array",
        "ndarray.resize",
    ),
]
