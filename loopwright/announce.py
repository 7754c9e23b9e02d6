"""What one compile says of itself: on stderr, and as files of the dump folder."""

from __future__ import annotations

import sys

from .config import Config
from .ready import Specialisation

__all__ = ["announce"]


def announce(name: str, made: Specialisation, config: Config) -> None:
    """Tell on stderr, and write into the dump folder, what the settings ask for."""
    if config.debug >= 1:
        summary = made.built.summary
        sys.stderr.write(
            f"loopwright: {name}({made.traced.request}) compiled in {made.seconds:.2f} s"
            f"{': ' + summary if summary else ''}\n"
        )
    shown = {2: "graph", 3: "loops", 4: "llvm", 5: "asm"}
    for level, text in shown.items():
        if config.debug >= level and text in made.built.levels:
            sys.stderr.write(made.built.as_text(text) + "\n")
    if config.dump is not None:
        config.dump.mkdir(parents=True, exist_ok=True)
        count = len({p.name.partition("-")[0] for p in config.dump.iterdir()})
        (config.dump / f"{count:03}-{name}-traced.txt").write_text(made.traced.as_text())
        for level in made.built.levels:
            path = config.dump / f"{count:03}-{name}-{level}.txt"
            path.write_text(made.built.as_text(level))
