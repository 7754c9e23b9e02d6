"""Stands in for ``python -m bench.worker``: answers at once, with figures by library."""

from __future__ import annotations

import json
import os
import sys
import time

SECONDS = {"untuned": 2e-3, "tuned": 1e-3, "numpy-haswell": 4e-3, "onnxruntime": 1.5e-3}

if __name__ == "__main__":
    library = sys.argv[1]
    for line in sys.stdin:
        command = json.loads(line)
        answer = {"seconds": SECONDS.get(library, 3e-3)}
        if library == "openvino":
            os._exit(3)
        if library == "torch":
            time.sleep(60)
        if command["do"] == "prepare":
            spent = command["options"].get("budget", 0.0)
            once = answer["seconds"]
            answer = {"wrong": 0.25, "tuning": spent, "ready": 0.01, "once": once}
        if library == "jax":
            answer = {"failed": "ModuleNotFoundError: No module named 'jax'"}
        print(json.dumps(answer), flush=True)
