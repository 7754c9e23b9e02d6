"""What other users may leave in the place of a file."""

from __future__ import annotations

import os
from pathlib import Path

NOBODY = 65534


def attacked(path: Path, attack: str, elsewhere: Path) -> None:
    """Puts something of another user's, or something else than a file, in the place of a file.

    ``elsewhere`` is where the file goes that a link points to. As another user than root, files
    cannot be given away: then others may write to the file.
    """
    if attack == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif attack == "link":
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    elif attack == "writable":
        path.chmod(0o666)
    elif attack == "foreign":
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        else:
            path.chmod(0o666)
    elif attack == "folder":
        path.unlink()
        path.mkdir()
    elif attack == "text":
        path.write_text("{" * 100)
    elif attack == "long":
        os.truncate(path, 1 << 40)
    elif attack == "open folder":
        path.parent.chmod(0o777)
    elif attack == "foreign folder":
        if os.geteuid() == 0:
            os.chown(path.parent, NOBODY, NOBODY)
        else:
            path.parent.chmod(0o777)
    elif attack == "linked folder":
        path.parent.rename(elsewhere)
        path.parent.symlink_to(elsewhere)
    else:
        raise ValueError(attack)
