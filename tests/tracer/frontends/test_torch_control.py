"""torch.cond, while_loop, scan and map of exported modules, against PyTorch."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.export about its own parts

from torch import nn  # noqa: E402
from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.head(x) * 2, lambda x: -x, (x,))


class Doublings(nn.Module):
    def forward(self, x: Any, n: Any) -> Any:
        start = (torch.tensor(0), x)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), start)


class Sums(nn.Module):
    def forward(self, x: Any) -> Any:
        return scan(lambda c, r: (c + r, c * r), x[0] * 0, x, dim=0, reverse=True)


class Rows(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch_map(lambda row: row.cos() @ row, x)


CASES = [
    (Branches, (torch.ones(4, 3),)),
    (Branches, (-torch.ones(4, 3),)),
    (Doublings, (torch.ones(3), torch.tensor(5))),
    (Doublings, (torch.ones(3), torch.tensor(0))),
    (Sums, (torch.arange(12.0).reshape(4, 3),)),
    (Rows, (torch.arange(12.0).reshape(4, 3),)),
]


@pytest.mark.parametrize(("module", "args"), CASES)
def test_higher_order_operators(module, args) -> None:
    torch.manual_seed(0)
    net = module().eval()
    wanted, given = net(*args), lw.from_torch(net, args)(*args)
    pairs = [*zip(given, wanted, strict=True)] if isinstance(wanted, tuple) else [(given, wanted)]
    for one, other in pairs:
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
