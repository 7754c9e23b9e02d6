"""Without an extra the other tests run, the end says which did not, and CI does not pass."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import repo_sources as sources


def _run(*arguments: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        cwd=sources.ROOT,
        env=environment | ({"CI": "true"} if ci else {}),
    )


@pytest.mark.parametrize("ci", [False, True])
def test_a_missing_package_leaves_out_what_needs_it(ci: bool) -> None:
    paths = (
        "tests/tracer/frontends/test_torch_sizes.py",
        "tests/tracer/core/test_argument_specs.py",
    )
    done = _run("--without", "torch", *paths, ci=ci)
    assert done.returncode == ci, done.stdout + done.stderr
    assert "left out: torch is not installed" in done.stdout
    assert "tests/tracer/frontends/test_torch_sizes.py" in done.stdout
    assert "passed" in done.stdout, "the other file runs"


def test_all_files_are_collected_without_any_extra() -> None:
    names = ("torch", "onnx", "distributed", "sklearn", "threadpoolctl", "scipy", "mpmath")
    done = _run("--collect-only", *(f"--without={name}" for name in names), "tests")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "error" not in done.stdout.splitlines()[-1]
