"""Object code is linked wherever the process has room."""

from __future__ import annotations

import subprocess
import sys

FRAGMENTED = """
import ctypes, mmap
from loopwright.codegen.llvm.engine import compile_object, load_object
from loopwright.codegen.target import Target

# More than a page of code, and constants that stand in a section of their own.
terms = "\\n".join(
    f"  %p{n} = getelementptr double, ptr %x, i64 {n}\\n  %v{n} = load double, ptr %p{n}\\n"
    f"  %w{n} = fmul double %v{n}, {n}.25\\n  store double %w{n}, ptr %p{n}"
    for n in range(1, 700)
)
code = compile_object(f"define void @scale(ptr %x) {{\\n{terms}\\n  ret void\\n}}", Target.host())

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_size_t]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
GIB = 1 << 30
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # no memory is reserved for it
far = libc.mmap(None, 8 * GIB, 0, private, -1, 0)
size = GIB
while size >= 4 * mmap.PAGESIZE:  # leave no hole above for the code
    made = libc.mmap(None, size, 0, private, -1, 0)
    if made < far:
        libc.munmap(made, size)
        size //= 2
for page in range(2, 64, 2):  # holes that are too small for the code, gigabytes away from it
    libc.munmap(far + 7 * GIB + page * mmap.PAGESIZE, mmap.PAGESIZE)
x = (ctypes.c_double * 700)(*range(700))
load_object(code).function("scale", ctypes.c_void_p)(x)
assert list(x)[1:] == [n * (n + 0.25) for n in range(1, 700)]
"""


def test_sections_of_an_object_lie_within_reach_of_each_other():
    child = subprocess.run(
        [sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, timeout=120
    )
    assert child.returncode == 0, child.stderr[-2000:]
