"""LLVM text of the monotonic clock, for native code that measures time."""

from __future__ import annotations

CLOCK_TEXT = """
declare i32 @clock_gettime(i32, ptr)

; Nanoseconds of CLOCK_MONOTONIC, which is number 1.
define internal i64 @now() alwaysinline {
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time
  %p = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %p
  %scaled = mul i64 %s, 1000000000
  %t = add i64 %scaled, %ns
  ret i64 %t
}
"""
"""``i64 @now()`` and what it needs; a module takes it once."""
