"""PyTorch's own samples, however their tensors lie in memory: some of what
``tools/torch_operators.py --placements`` tries."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tools import torch_operators, torch_placements  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the samples

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
                for verdict, reason in torch_operators.check(op, dtype, 3, False, placements=True):
                    assert verdict != "wrong", reason
                    passed += verdict == "passes"
    assert passed >= 5


def test_a_wrong_stride_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were ``as_strided`` to take all tensors to be row-major, the trials would say so."""
    op = next(each for each in torch_operators.op_db if each.name == "as_strided")
    outcome = torch_operators.outcome

    def row_major(function, tensors, compiled):
        return outcome(function, [t.contiguous() for t in tensors], compiled)

    monkeypatch.setattr(torch_operators, "outcome", row_major)
    verdicts = torch_operators.check(op, torch.float32, 9, False, placements=True)
    assert "wrong" in [verdict for verdict, _ in verdicts]


def test_placements_keep_the_values() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    for name in ("contiguous", "transposed", "sliced"):
        assert torch.equal(torch_placements.PLACEMENTS[name](x), x)
    assert torch_placements.transposed(x).stride() == (1, 3)
    assert torch_placements.sliced(x).stride() == (11, 2)
