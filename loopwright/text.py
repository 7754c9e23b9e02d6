"""Durations, sizes, rates and tables as text for people."""

from __future__ import annotations

from collections.abc import Sequence


def seconds_text(seconds: float | None) -> str:
    """Returns a duration with three digits and a unit that fits.

    >>> seconds_text(0.00102), seconds_text(9.998e-4), seconds_text(None)
    ('1.02 ms', '1 ms', '-')
    """
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # what is rounded up to 1000 takes the next unit
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(size: float) -> str:
    """Returns a size in binary units.

    >>> bytes_text(32768), bytes_text(1048576), bytes_text(100)
    ('32 KiB', '1 MiB', '100 bytes')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:g} bytes"


def rate_text(rate: float, unit: str) -> str:
    """Returns a rate in billions per second.

    >>> rate_text(1.182e11, "FLOP/s")
    '118.2 GFLOP/s'
    """
    return f"{rate / 1e9:.1f} G{unit}"


def shortened(text: str, width: int) -> str:
    """Returns a text of at most ``width`` characters, its end replaced by dots if it is longer.

    >>> shortened("conv2d_add_relu", 8)
    'conv2...'
    """
    return text if len(text) <= width else f"{text[: width - 3]}..."


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Returns rows as columns padded to their widest cell: numbers to the right, the columns
    ``left`` to the left.

    >>> print(table(("name", "ms"), [("a", "1.5"), ("long", "10.25")]))
    name     ms
    a       1.5
    long  10.25
    """
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[c]) for line in lines) for c in range(len(head))]
    out: list[str] = []
    for line in lines:
        cells = [
            cell.ljust(width) if c in left else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths))
        ]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)
