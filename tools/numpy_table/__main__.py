"""Rewrites docs/numpy.md; see the package."""

from __future__ import annotations

import sys

from .page import PAGE, missing, page, rows

if __name__ == "__main__":
    if "--missing" in sys.argv[1:]:
        print(*missing(), sep="\n")
    else:
        PAGE.write_text(page())
        print(f"{sum(len(row.names) for row in rows())} functions, {len(missing())} missing")
