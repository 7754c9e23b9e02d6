"""The processes of the libraries, seen from the run: one each, and only one of them awake."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .libraries import LIBRARIES

__all__ = ["Worker"]

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "bench.worker"]
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "LOOPWRIGHT_THREADS",
    "TVM_NUM_THREADS",
)


class Worker:
    """A library's process.

    It is stopped while it has nothing to answer: threads that wait by spinning, which several
    libraries have, would take the time of the one being measured. One that died or took too long
    is started again for the next workload.
    """

    def __init__(
        self,
        library: str,
        threads: int,
        command: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``command`` starts the process if it is not ``bench.worker``, with ``variables``."""
        self.library = library
        self._threads = threads
        self._command = command
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def _start(self) -> subprocess.Popen[bytes]:
        variables = self._variables
        environment = dict(
            os.environ, **(LIBRARIES[self.library].variables() if variables is None else variables)
        )
        environment.update({name: str(self._threads) for name in _THREAD_VARIABLES})
        self._rest = b""
        return subprocess.Popen(
            [*(self._command or COMMAND), self.library],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
            bufsize=0,
        )

    def ask(self, patience: float, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer, at most ``patience`` seconds."""
        self._process = self._process or self._start()
        process = self._process
        assert process.stdin is not None
        try:
            os.killpg(process.pid, signal.SIGCONT)
            process.stdin.write(json.dumps(command).encode() + b"\n")
            answer = json.loads(self._line(patience))
            os.killpg(process.pid, signal.SIGSTOP)
            return answer
        except TimeoutError:
            self.close()
            return {"failed": f"took longer than {patience:g} s"}
        except (OSError, EOFError, ValueError):
            self.close()
            return {"failed": f"its process ended with code {process.returncode}"}

    def _line(self, patience: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        out, end = self._process.stdout, time.monotonic() + patience
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise TimeoutError
            more = os.read(out.fileno(), 1 << 16)
            if not more:
                raise EOFError
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process and those it has started."""
        if self._process is None:
            return
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._process = None
