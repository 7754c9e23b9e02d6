"""A digest of large data at the speed of memory, which tells damaged bytes from whole ones.

SHA-256 takes 0.4 to 2 GB a second, longer than all else that loading a program does. Here 32 lanes
of 64 bits take in every 32nd word each (multiplication and rotation, after Fowler, Noll and Vo's
FNV-1a), and SHA-256 has their states and what is left over. A step is one to one in the word and in
the lane: one changed word always changes the digest, and other damage does but for one in 2**64.
Somebody who looks for two contents with one digest will find them.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np

from .llvm.link import LoadedObject, load_object
from .llvm.store import stored_object
from .target import Target

STRIPE = 256
"""Bytes that all lanes take in at once."""
_TEXT = """
declare <32 x i64> @llvm.fshl.v32i64(<32 x i64>, <32 x i64>, <32 x i64>)

define void @lw_digest(ptr %state, ptr %data, i64 %stripes) {
entry:
  %before = load <32 x i64>, ptr %state, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %lanes = phi <32 x i64> [ %before, %entry ], [ %rotated, %loop ]
  %stripe = getelementptr <32 x i64>, ptr %data, i64 %i
  %words = load <32 x i64>, ptr %stripe, align 1
  %mixed = xor <32 x i64> %lanes, %words
  %product = mul <32 x i64> %mixed, splat (i64 -7046029254386353131)
  %rotated = call <32 x i64> @llvm.fshl.v32i64(
    <32 x i64> %product, <32 x i64> %product, <32 x i64> splat (i64 29))
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %stripes
  br i1 %more, label %loop, label %end
end:
  store <32 x i64> %rotated, ptr %state, align 8
  ret void
}
"""


@cache
def _native(target: Target) -> tuple[LoadedObject, Callable[[int, int, int], None]]:
    code = load_object(stored_object(_TEXT, target, "digest"), {})
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return code, kind(code.address("lw_digest"))


class Digest:
    """The digest of the bytes it is given, in pieces of multiples of 256 bytes but for the last.

    >>> digest = Digest()
    >>> digest.update(memoryview(bytes(1000)))
    >>> digest.hexdigest()[:16]
    'eebac1a2d463bf93'
    """

    def __init__(self) -> None:
        self._lanes = np.arange(1, STRIPE // 8 + 1, dtype=np.uint64)
        self._rest = hashlib.sha256()

    def update(self, piece: memoryview) -> None:
        """Takes in the bytes of a contiguous view."""
        stripes = len(piece) // STRIPE
        if stripes:
            _, native = _native(Target.host())
            data = np.frombuffer(piece, np.uint8)
            native(self._lanes.ctypes.data, data.ctypes.data, stripes)
        self._rest.update(piece[stripes * STRIPE :])

    def hexdigest(self) -> str:
        """Returns the digest of all that was taken in, as 64 hexadecimal digits."""
        whole = self._rest.copy()
        whole.update(self._lanes.data)
        return whole.hexdigest()
