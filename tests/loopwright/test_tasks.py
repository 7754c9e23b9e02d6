"""Tasks: equal kernels are one, counted as often as they are called."""

from __future__ import annotations

from pathlib import Path

import loopwright as lw
import numpy as np
from loopwright.autotune.measure.kernels import tasks_of
from loopwright.cli import main
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import called_kernels, lower_module
from loopwright.inspect.tasks import list_tasks

RNG = np.random.default_rng(0)
C1, *C = (RNG.standard_normal((8, c, 3, 3)).astype(np.float32) for c in (3, 8, 8, 8, 8))
X = RNG.standard_normal((1, 3, 12, 12)).astype(np.float32)


def block(x, first, second):
    y = np.maximum(lw.nn.conv2d(x, first, padding=1), 0)
    return np.maximum(lw.nn.conv2d(y, second, padding=1) + x, 0)


@lw.compile(threads=1, precision="strict")
def net(x):
    """A stem, two residual blocks of one shape, a mean over the image."""
    x = np.maximum(lw.nn.conv2d(x, C1, padding=1), 0)
    return block(block(x, C[0], C[1]), C[2], C[3]).mean(axis=(2, 3))


def test_equal_kernels_of_a_residual_network_are_one_task() -> None:
    module = net.trace(X).module
    tasks = tasks_of(called_kernels(lower_module(module)), Target.host(), 1)
    weights = {t.name: t.weight for t in tasks}
    assert sum(weights.values()) > len(weights)
    listed = list_tasks(net.lower(X).built, [X], 0.01)
    counts = sorted(t.calls for t in listed)
    # The stem, the mean; in each block a convolution with relu and one with the sum.
    assert counts == [1, 1, 2, 2]
    assert len({t.workload for t in listed}) == len(listed)
    assert abs(sum(t.share for t in listed) - 1) < 1e-9
    assert [t.share for t in listed] == sorted((t.share for t in listed), reverse=True)
    assert all(t.seconds > 0 and t.origin == "rules" for t in listed)


def test_names_do_not_make_kernels_different() -> None:
    @lw.compile(threads=1)
    def twice(left, right):
        return np.tanh(left) * 2, np.tanh(right) * 2

    x = np.ones((64, 64), np.float32)
    listed = list_tasks(twice.lower(x, x[:32]).built, [x, x[:32]], 0.01)
    assert sorted(t.calls for t in listed) == [1, 1]
    listed = list_tasks(twice.lower(x, x.T @ x).built, [x, x.T @ x], 0.01)
    assert sum(t.calls for t in listed) <= 2 and len(listed) == 1


def test_the_command_lists_them(tmp_path: Path, capsys) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import numpy as np\nimport loopwright as lw\nW = np.ones((16, 16), np.float32)\n"
        "@lw.compile(threads=1)\ndef net(x):\n"
        "    for _ in range(3):\n        x = np.maximum(x @ W, 0)\n    return x\n"
        "example_inputs = (lw.f32[8, 16],)\n"
    )
    assert main(["tune", f"{file}:net", "--list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "3 calls of 1 kernels" in head
    (line,) = lines
    assert line.split()[:4] == ["matmul_maximum", "x3", "100.0", "%"] and "rules" in line
