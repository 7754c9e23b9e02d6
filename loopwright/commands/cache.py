"""``loopwright cache``: the machine code and programs that are kept between processes."""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import datetime

from ..codegen.llvm.settings import cache_folder
from ..codegen.llvm.store import CODE_ROOMS, store
from ..text import bytes_text, table

HELP = "what the disk cache holds, and how to empty it"
DESCRIPTION = "List or clear the machine code and programs that are kept between processes."
EXAMPLES = """\
examples:
  loopwright cache list              what is kept, the entries used last first
  loopwright cache list --all        all of it
  loopwright cache clear             remove it; what is needed is compiled again

The folder is LOOPWRIGHT_CACHE, and LOOPWRIGHT_CACHE_SIZE says how many megabytes of code it may
hold; whole programs of imported models, with their weights, may come to eight times as many.
Entries of another version of Loopwright are never used, and go when they are the oldest.
"""

SHOWN_ENTRIES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``cache``."""
    actions = parser.add_subparsers(dest="action", metavar="list|clear", required=True)
    lister = actions.add_parser("list", help="show what is kept")
    lister.add_argument("--all", action="store_true", help="all entries, not the newest alone")
    lister.set_defaults(run=_list)
    actions.add_parser("clear", help="remove all entries").set_defaults(run=_clear)


def _list(args: argparse.Namespace) -> int:
    entries = store().entries()
    total = sum(entry.size for entry in entries)
    print(f"{cache_folder() / 'code'}: {len(entries)} entries, {bytes_text(total)}")
    kinds = Counter(entry.label.partition(" ")[0] for entry in entries)
    for kind, count in sorted(kinds.items()):
        size = sum(e.size for e in entries if e.label.partition(" ")[0] == kind)
        print(f"  {kind}: {count}, {bytes_text(size)}")
    count, size = store("programs").total()
    print(f"{cache_folder() / 'programs'}: {count} programs, {bytes_text(size)}")
    rows = [
        (
            entry.label,
            bytes_text(entry.size),
            f"{datetime.fromtimestamp(entry.used):%Y-%m-%d %H:%M}",
        )
        for entry in (entries if args.all else entries[:SHOWN_ENTRIES])
    ]
    if rows:
        print(table(("entry", "size", "last used"), rows))
    return 0


def _clear(_args: argparse.Namespace) -> int:
    for room in CODE_ROOMS:
        print(f"{store(room).sweep(0)} entries removed from {cache_folder() / room}")
    return 0
