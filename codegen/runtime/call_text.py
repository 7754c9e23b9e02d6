"""The call path in native code: check arrays, make results, call the entry.

``memory.ll`` and ``call.ll`` are its source, with names between @ for the numbers below.

``@lw_call`` has the signature of a CPython METH_FASTCALL function. Its ``self`` is an int64 array,
the call's context (``executable`` fills it)::

    context   0 entry   1 inputs   2 outputs   3 input specs   4 output specs   5 first idle frame
              6 Python function that adds an idle frame   7 lw_pool_limit
              8 threads the entry may use, or 0: the caller's number
              9 inputs that the entry writes   10 their positions   11 lw.sizes
              12 words of a frame before the sizes   13 before the axes' sizes
              14 before the answers   15 the answer that is the arena's bytes   16 bins
    spec      0 dtype object   1 rank
    frame     0 next idle frame   1 ... the pointers handed to the entry, sizes, axes, answers

An argument fits if its type is exactly ``ndarray``, with the spec's dtype and rank, contiguous and
aligned, and the entry's own function ``lw.sizes`` (``size_text``) accepts the sizes of all axes. It
answers with the bytes of the arena and the inputs, and the bytes and shapes of the results; where
all sizes are constant it is ``@lw_same_axes``. An argument that the entry writes must be writeable
and share no memory with another. If an argument does not fit, the result is None and nothing has
been done. Frames and bins are changed only while the GIL is held; it is released while the entry
runs. If that returns a status other than 0, the call raises.

Addresses of loads and stores may stand in place (``with_addresses``).

A bin holds idle memory of one size, one of ``bin_sizes``, most recently used first. The 64 bytes
before the memory belong to the bin::

    bin       0 first idle block   1 bytes of a block   2 blocks handed out so far
    block     0 next idle block    1 its bin
"""

from __future__ import annotations

from pathlib import Path

RAISED, TOO_DEEP = 1, 2
"""Status of an entry that has not run to its end (else 0): an exception is set, or functions call
each other too deeply."""

TOO_DEEP_TEXT = (
    "compiled functions call each other too deeply for their stack; LOOPWRIGHT_STACK=MEGABYTES "
    "makes it larger, and a call that a function ends with needs none"
)

PAGED_BYTES = 16 * 1024
"""Memory of at least this many bytes starts at a fixed place in its page (less fits into L1)."""

IN_PAGE = 2048
"""Offset in a page at which larger memory starts, the same for all memory of ours.

A load waits for an earlier store to an address 4096 * n bytes away. A kernel that walks over input
and result together would do so in every iteration if the result began 48 to 200 bytes further in
its page than the input; NumPy's large arrays begin 16 bytes into a page (docs/measurements.md).
"""

LINEAR, STEPS, LAST = 12, 3, 62
"""Bins of up to 2 ** LINEAR bytes are 64 bytes apart. Then there are 2 ** STEPS from each power of
two to the next, up to 2 ** LAST."""

LARGEST_BLOCK = 1 << LAST

_template = "".join(Path(__file__).with_name(n).read_text() for n in ("memory.ll", "call.ll"))
CALL_TEXT = (
    _template.replace("@PAGED@", str(PAGED_BYTES))
    .replace("@IN_PAGE@", str(IN_PAGE))
    .replace("@TOO_DEEP@", str(TOO_DEEP))
    .replace("@TOO_DEEP_BYTES@", str(len(TOO_DEEP_TEXT) + 1))
    .replace("@TOO_DEEP_TEXT@", TOO_DEEP_TEXT)
    .replace("@LINEAR_BYTES@", str(1 << LINEAR))
    .replace("@LINEAR@", str(LINEAR))
    .replace("@STEPS@", str(STEPS))
    .replace("@FIRST@", str((1 << LINEAR) // 64 - (1 << STEPS)))
)


def bin_sizes() -> list[int]:
    """Returns the bytes of each bin."""
    sizes = [64 * (n + 1) for n in range((1 << LINEAR) // 64)]
    for power in range(LINEAR, LAST):
        sizes += [(1 << power) + n * (1 << power - STEPS) for n in range(1, (1 << STEPS) + 1)]
    return sizes
