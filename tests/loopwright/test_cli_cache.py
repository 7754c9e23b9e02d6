"""``loopwright cache``."""

from __future__ import annotations

from loopwright.cli import main
from loopwright.codegen.llvm.store import store


def test_the_cache_is_listed_and_cleared(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "1")
    for n in range(25):
        store().put(store().key("kernel", n), f"kernel matmul_{n}", bytes(1000))
    assert main(["cache", "list"]) == 0
    out = capsys.readouterr().out
    assert "25 entries" in out and "kernel: 25," in out and out.count("matmul_") == 20
    assert main(["cache", "list", "--all"]) == 0
    assert capsys.readouterr().out.count("matmul_") == 25
    assert main(["cache", "clear"]) == 0
    assert "25 entries removed" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    assert "0 entries" in capsys.readouterr().out
