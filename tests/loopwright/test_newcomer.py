"""Programs of people who begin, and what they are told.

``golden/newcomer.txt`` holds the programs, each with what it prints below it: file and line, the
place under carets, what is wrong, and what to write instead.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import loopwright as lw
import pytest
from loopwright.cli import main

FILE = Path(__file__).parent / "golden" / "newcomer.txt"
PRELUDE = "import numpy as np\nimport loopwright as lw\n\n"
NET = """\
import numpy as np

def predict(x):
    return x + 1

predict_args = (np.ones(3),)

def bare(x):
    return x
"""


def programs() -> dict[str, str]:
    parts = [part.partition("\n") for part in FILE.read_text().split("=== ")[1:]]
    return {name: text.partition("---\n")[0] for name, _, text in parts}


def told(program: str) -> str:
    """Returns what a program prints, with its warnings and its error."""
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        if program.startswith("$ "):
            with contextlib.suppress(SystemExit):
                main(program.split()[2:])
        else:
            Path("program.py").write_text(PRELUDE + program)
            linecache.clearcache()
            try:
                code = compile(PRELUDE + program, str(Path("program.py").absolute()), "exec")
                exec(code, {"__name__": "__main__", "__file__": "program.py"})
            except Exception as error:
                printed.write(shown(error))
    for warning in warned:
        name = Path(warning.filename).name
        printed.write(f"{name}:{warning.lineno}: {warning.category.__name__}: {warning.message}\n")
    text = printed.getvalue().replace(str(Path.cwd()), "FOLDER")
    return re.sub(r" at 0x\w+|(?m: +$)", "", text)


def shown(error: Exception) -> str:
    """Returns an error as Python shows it; of one of Python's, the last line of the traceback."""
    text = f"{type(error).__name__}: {error}\n" + "".join(
        f"{note}\n" for note in getattr(error, "__notes__", ())
    )
    if isinstance(error, lw.LoopwrightError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if frame.filename.endswith("program.py")][-1]
    text = re.sub(r"\. Did you mean '\w+'\?", "", text)  # of newer versions of Python
    return f"  {Path(last.filename).name}:{last.lineno}: {last.line}\n{text}"


def test_every_message_teaches(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    text = "".join(f"=== {n}\n{program}---\n{told(program)}" for n, program in programs().items())
    golden(text, FILE.name)
