"""PyTorch's own samples, however their tensors lie in memory: some of what
``tools/torch_operators.py --placements`` tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from loopwright.doors.torch_model import backend  # noqa: E402

from tools import torch_operators, torch_placements  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the samples
    pytest.mark.usefixtures("fresh_dynamo"),
]

NAMES = (
    *("as_strided", "sum", "prod", "cumsum", "mean", "clone", "contiguous", "t", "transpose"),
    *("cat", "addmm", "bmm", "softmax", "index_select", "where", "add", "bitwise_and", "tril"),
    *("nn.functional.layer_norm", "nn.functional.conv2d", "new_full", "sort", "flip"),
)
"""Operators that read sizes, strides or dtypes, and some of each other kind."""


@pytest.mark.parametrize("name", NAMES)
def test_no_result_depends_on_the_placement(name: str) -> None:
    passed = 0
    for op in [each for each in torch_operators.op_db if each.name == name]:
        for dtype in (torch.float32, torch.float16, torch.int64):
            if dtype in op.dtypes:
                for verdict, reason in torch_operators.check(op, dtype, 2, False, placements=True):
                    assert verdict != "wrong", reason
                    passed += verdict == "passes"
    assert passed >= 5


def test_a_wrong_stride_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were ``as_strided`` to take all tensors to be row-major, the trials would say so."""
    op = next(each for each in torch_operators.op_db if each.name == "as_strided")
    outcome = torch_operators.outcome

    def row_major(function, tensors, compiled, _example):
        return outcome(function, [t.contiguous() for t in tensors], compiled)

    monkeypatch.setattr(torch_operators, "outcome", row_major)
    verdicts = torch_operators.check(op, torch.float32, 9, False, placements=True)
    assert "wrong" in [verdict for verdict, _ in verdicts]


def test_placements_keep_the_values() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    for name in ("contiguous", "transposed", "sliced", "behind"):
        assert torch.equal(torch_placements.PLACEMENTS[name](x), x)
    assert torch_placements.transposed(x).stride() == (1, 3)
    assert torch_placements.sliced(x).stride() == (11, 2)
    assert torch_placements.behind(x).storage_offset() == 3


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


VIEWS: dict[str, Callable[..., Any]] = {
    "transposed": lambda x: x.t(),
    "row by row": lambda x: x.view(2, 12),
    "cut": lambda x: (x[1:], x[:, None, 2]),
    "bytes": lambda x: x.view(torch.int32),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_argument_in_another_placement(name: str) -> None:
    """A program that was exported for one placement is called with tensors and arrays in others."""
    x = torch.arange(24.0).reshape(4, 6)
    f = lw.from_torch(Call(VIEWS[name]), (x,))
    for place in torch_placements.PLACEMENTS.values():
        if (placed := place(x)).shape == x.shape:
            wanted = VIEWS[name](placed.contiguous())
            torch.testing.assert_close(f(placed), wanted, rtol=0, atol=0)
            arrays = f(placed.numpy())
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            arrays = arrays if isinstance(arrays, tuple) else (arrays,)
            for array, each in zip(arrays, wanted, strict=True):
                np.testing.assert_array_equal(array, each)


def test_memory_that_was_exported_in_another_placement_is_refused() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    relative = lw.from_torch(Call(lambda x: x.as_strided((3, 2), (2, 1)) + 1), (x,))
    absolute = lw.from_torch(Call(lambda x: x.as_strided((3, 2), (2, 1), 3) + 1), (x,))
    behind = torch_placements.behind(x)
    torch.testing.assert_close(relative(behind), behind[0].reshape(3, 2) + 1)
    for f, placed in ((relative, torch_placements.transposed(x)), (absolute, behind)):
        with pytest.raises(lw.UnsupportedError, match="reads the memory of an argument"):
            f(placed)


def test_places_in_the_storage_are_those_of_the_tensor_at_hand() -> None:
    """Dynamo does not look at offsets."""

    def read(x: Any) -> Any:
        return x.as_strided((2, 2), (2, 1), 4) * 2

    f, wide = torch.compile(read, backend=backend), torch.arange(20.0)
    for start in (0, 2, 4):
        x = wide[start : start + 12].view(3, 4)
        torch.testing.assert_close(f(x), read(x))


def test_elements_are_written_by_their_places() -> None:
    def written(x: Any) -> Any:
        y = (x + 1).t().clone()
        y.as_strided((2, 2), (5, 1), 1).fill_(7)
        return y, (x * 2).t().resize_(3, 5)

    f = torch.compile(written, backend=backend, options={"fallback": False})
    for place in (torch_placements.transposed, torch_placements.sliced, torch.clone):
        x = place(torch.arange(24.0).reshape(4, 6))
        torch.testing.assert_close(f(x), written(x), rtol=0, atol=0)
