"""Examples of the functions that are made from the declarations of operators, two lines each.

>>> nn.relu(np.float32([-1, 0, 2])).tolist()
[0.0, 0.0, 2.0]
>>> nn.gelu(np.array([-1.0, 0, 1])).round(3).tolist()
[-0.159, 0.0, 0.841]
>>> nn.silu(np.array([-1.0, 0, 1])).round(3).tolist()
[-0.269, 0.0, 0.731]
>>> nn.sigmoid(np.float32([0])).tolist()
[0.5]
>>> nn.rsqrt(np.float32([4])).tolist()
[0.5]
>>> nn.erf(np.float32([0, 9])).tolist()
[0.0, 1.0]
>>> nn.flush(np.float32([1e-40, 1])).tolist()
[0.0, 1.0]
>>> nn.bits(np.float32([1])).tolist()
[1065353216]
>>> nn.from_bits(np.uint32([1065353216])).tolist()
[1.0]
>>> nn.matmul(np.ones((2, 3)), np.ones(3)).tolist()
[3.0, 3.0]
>>> nn.softmax(np.float32([0, 0])).tolist()
[0.5, 0.5]
>>> nn.log_softmax(np.zeros(2)).round(3).tolist()
[-0.693, -0.693]
>>> nn.batch_norm(np.ones((1, 2)), *np.ones((4, 2))).tolist()
[[1.0, 1.0]]
>>> nn.conv1d_transpose(np.ones((1, 1, 3)), np.ones((1, 1, 2))).tolist()
[[[1.0, 2.0, 2.0, 1.0]]]
>>> nn.conv2d_transpose(np.ones((1, 3, 4, 4)), np.ones((3, 2, 3, 3))).shape
(1, 2, 6, 6)
>>> nn.conv3d_transpose(*2 * [np.ones((1, 1, 2, 2, 2))]).shape
(1, 1, 3, 3, 3)
>>> nn.max_pool1d(np.float32([[[1, 3, 2, 5]]]), (2,), (2,)).tolist()
[[[3.0, 5.0]]]
>>> nn.sum_pool1d(np.float32([[[1, 3, 2, 5]]]), (2,), (2,)).tolist()
[[[4.0, 7.0]]]
>>> nn.avg_pool1d(np.float32([[[1, 3, 2, 5]]]), (2,), (2,)).tolist()
[[[2.0, 3.5]]]
>>> nn.sum_pool2d(np.ones((1, 1, 2, 2)), (2, 2)).tolist()
[[[[4.0]]]]
>>> nn.max_pool3d(np.ones((1, 1, 4, 4, 4)), (2, 2, 2)).shape
(1, 1, 2, 2, 2)
>>> nn.sum_pool3d(np.ones((1, 1, 2, 2, 2)), (2, 2, 2)).tolist()
[[[[[8.0]]]]]
>>> nn.avg_pool3d(np.ones((1, 1, 2, 2, 2)), (2, 2, 2)).tolist()
[[[[[1.0]]]]]
>>> nn.global_max_pool2d(np.float32([[[[1, 2], [3, 6]]]])).tolist()
[[[[6.0]]]]
>>> nn.global_avg_pool2d(np.float32([[[[1, 2], [3, 6]]]])).tolist()
[[[[3.0]]]]
>>> nn.searchsorted(np.array([1, 3, 5]), np.array([0, 3, 9])).tolist()
[0, 1, 3]
>>> nn.sort(np.array([3, 1, 2])).tolist()
[1, 2, 3]
>>> nn.argsort(np.array([3, 1, 2])).tolist()
[1, 2, 0]
>>> nn.non_max_suppression(np.ones((1, 2, 4)), np.ones((1, 2)), 1).tolist()
[[0]]
>>> nn.top_k_indices(np.array([3, 9, 5]), 2).tolist()
[1, 2]
"""

from __future__ import annotations

import re


def example(name: str) -> str:
    """Returns the lines to add to the docstring of ``lw.nn``'s function ``name``."""
    lines = re.search(rf"^>>> nn\.{name}\(.*\n.*$", __doc__ or "", re.MULTILINE)
    return f"\n\n{lines[0]}" if lines else ""
