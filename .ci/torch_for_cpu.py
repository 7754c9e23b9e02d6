"""Prints a requirement for the newest PyTorch that pip finds without libraries for GPUs.

PyTorch keeps its wheels for CPUs in an index of its own; where that cannot be reached, the default
index has some for this platform or has none, and those for GPUs take gigabytes. Nothing is
downloaded but metadata. Exits with 1, and says why, if no wheel is found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

TRIES = 8
"""Releases that are looked at, from the newest down."""


def newest(requirement: str) -> dict[str, Any] | None:
    """Returns the metadata of what pip would install for ``requirement``, None if nothing is."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    command += ["--no-deps", "--ignore-installed", "--only-binary", ":all:", requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)["install"][0]["metadata"] if done.returncode == 0 else None


def needs_gpu_libraries(metadata: dict[str, Any]) -> bool:
    """True if a wheel depends on NVIDIA's or AMD's libraries on this platform."""
    from pip._vendor.packaging.requirements import Requirement

    needed = [Requirement(line) for line in metadata.get("requires_dist", ())]
    return any(
        each.name.startswith(("nvidia-", "cuda-", "rocm-", "pytorch-triton"))
        for each in needed
        if each.marker is None or each.marker.evaluate({"extra": ""})
    )


def main() -> int:
    """Prints the requirement, such as ``torch==2.9.1``."""
    requirement = sys.argv[1]
    bound = ""
    for _ in range(TRIES):
        metadata = newest(requirement + bound)
        if metadata is None:
            break
        if not needs_gpu_libraries(metadata):
            print(f"{metadata['name']}=={metadata['version']}")
            return 0
        bound = f",<{metadata['version']}"
    print(f"pip finds no wheel of {requirement} without libraries for GPUs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
