"""PyTorch with MKL's AVX-512 kernels on processors that are not Intel's.

MKL asks a function of its own whether the processor is Intel's, and takes slower kernels if not.
PyTorch's wheels export that function, so a library loaded before them can answer in its place.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["is_intel", "preloaded"]

_SOURCE = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


def is_intel() -> bool:
    """True if the processor is Intel's, and MKL at its best anyway."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


@functools.cache
def preloaded() -> dict[str, str]:
    """The environment in which MKL answers yes; an empty one where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return {}
    folder = Path(tempfile.gettempdir()) / "loopwright-bench"
    folder.mkdir(exist_ok=True)
    source, library = folder / "mkl.c", folder / "mkl.so"
    source.write_text(_SOURCE)
    done = subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source])
    return {"LD_PRELOAD": str(library)} if done.returncode == 0 else {}
