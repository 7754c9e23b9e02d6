"""Random layers on bytes against ONNX's evaluator, and ONNX Runtime where it is installed.

python tests/fuzz/quantised_run.py --seeds 0:3000
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from random_quantised import KINDS, draw_layer, failure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", metavar="A:B")
    first, last = map(int, parser.parse_args().seeds.split(":"))
    wrong = 0
    for seed in range(first, last):
        text = failure(draw_layer(seed))
        if text:
            wrong += 1
            print(f"seed {seed}: {text}", flush=True)
    print(f"{last - first} layers of {len(KINDS)} kinds, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
