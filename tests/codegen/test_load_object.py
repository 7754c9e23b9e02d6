"""Object code is linked wherever the process has room."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.target import Target

FRAGMENTED = """
import ctypes, mmap
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
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


def test_symbols_are_found_in_what_is_given_and_in_the_process():
    text = """
    declare i32 @given(i32)
    declare i32 @abs(i32)
    @table = internal constant [4 x i32] [i32 -1, i32 -2, i32 -3, i32 -4]
    @count = internal global i32 0
    define i32 @f(i64 %n) {
      %p = getelementptr i32, ptr @table, i64 %n
      %x = load i32, ptr %p
      %a = call i32 @abs(i32 %x)
      %b = call i32 @given(i32 %a)
      %old = load i32, ptr @count
      %new = add i32 %old, 1
      store i32 %new, ptr @count
      %sum = add i32 %b, %old
      ret i32 %sum
    }"""
    given = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: 100 * x)
    address = ctypes.cast(given, ctypes.c_void_p).value
    assert address is not None
    code = load_object(compile_object(text, Target.host()), {"given": address})
    f = code.function("f", ctypes.c_long, restype=ctypes.c_int)
    assert [f(0), f(1), f(3)] == [100, 201, 402]
    with pytest.raises(KeyError, match="g"):
        code.address("g")


def test_what_cannot_be_linked_is_refused():
    text = "declare void @lw_nobody() define void @f() { call void @lw_nobody() ret void }"
    code = compile_object(text, Target.host())
    with pytest.raises(KeyError, match="lw_nobody"):
        load_object(code)
    with pytest.raises(ValueError, match="not a 64-bit"):
        load_object(b"no object")
