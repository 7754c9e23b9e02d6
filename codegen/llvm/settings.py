"""The settings of the disk cache: its folder, and how much it may hold."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_MEGABYTES = 512
"""Megabytes of entries that are kept unless the user says otherwise: some 30,000 kernels."""
OFF = ("0", "off", "no", "false")
"""Values of ``LOOPWRIGHT_CACHE`` that turn the cache off."""


def cache_folder() -> Path:
    """Returns the folder for what is worth keeping between processes: ``LOOPWRIGHT_CACHE``, or
    ~/.cache/loopwright. It is one that cannot be written where the user wants none."""
    given = os.environ.get("LOOPWRIGHT_CACHE")
    if given and given.lower() in OFF:
        return Path(os.devnull, "cache")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "loopwright"


def allowed_bytes() -> int:
    """Returns how many bytes of machine code the folder may hold: ``LOOPWRIGHT_CACHE_SIZE``, 0 if
    the cache is off."""
    if os.environ.get("LOOPWRIGHT_CACHE", "").lower() in OFF:
        return 0
    try:
        megabytes = float(os.environ.get("LOOPWRIGHT_CACHE_SIZE") or DEFAULT_MEGABYTES)
    except ValueError:  # a message says so where all settings are read
        megabytes = DEFAULT_MEGABYTES
    return int(max(0.0, megabytes) * 2**20)
