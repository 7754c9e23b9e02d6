"""The command line itself: help that teaches, errors of one line, exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from loopwright import cli

# Each line is a mistake; the answer is one line on stderr, exit code 2, and says what to do.
MISTAKES = {
    "nope": "invalid choice: 'nope'",
    "log": "are required: ACTION",
    "log list": "which log? give its path, or set LOOPWRIGHT_LOG",
    "log list nope.jsonl": "no tuning log at nope.jsonl; `loopwright tune ... --log nope.jsonl`",
    "log best .": ". is not a tuning log: a folder, not a file",
    "log prune x --keep 0": "'0' is not a count of 1 or more",
    "log merge a.jsonl --into b.jsonl": "no tuning log at a.jsonl",
    "doctor --isa avx9": "invalid choice: 'avx9'",
}


def _commands() -> list[str]:
    return [command.__name__.rpartition(".")[2] for command in cli._COMMANDS]


@pytest.mark.parametrize("command", _commands())
def test_the_help_of_every_command_has_examples(command: str, capsys) -> None:
    assert cli.main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"loopwright {command}" in shown.split("examples:")[1]


def test_without_a_command_the_help_is_shown(capsys) -> None:
    assert cli.main([]) == 2
    assert "examples:" in capsys.readouterr().err


def test_every_example_of_the_top_help_is_understood(capsys) -> None:
    cli.main(["--help"])
    examples = capsys.readouterr().out.split("examples:")[1]
    known = _commands()
    for line in examples.splitlines():
        words = line.split()
        if words[:1] == ["loopwright"]:
            assert words[1] in known, line


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_with_a_way_out(line: str, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPWRIGHT_LOG", raising=False)
    assert cli.main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("loopwright") and err.count("\n") == 1
    assert MISTAKES[line] in err


def test_runs_as_a_module_and_says_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loopwright", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("loopwright ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tu", "tune"),
        ("tune --strat", "--strategy"),
        ("show --level ll", "llvm"),
        ("log be", "best"),
        ("completion z", "zsh"),
    ],
)
def test_bash_completes(line: str, words: str, capsys, monkeypatch) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    typed = f"loopwright {line}".split()
    script += f"\nCOMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _loopwright"
    script += "; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [words]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(shell: str, capsys) -> None:
    assert cli.main(["completion", shell]) == 0
    assert "--strategy" in capsys.readouterr().out
