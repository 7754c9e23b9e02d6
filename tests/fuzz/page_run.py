"""The pages of bundles in Chromium: ``python tests/fuzz/page_run.py [--pictures FOLDER]``.

Digits are drawn on the page of ``examples/digits.py``, by pointer and by keys, and have to be
recognised; a page of numbers has to show what the function returns here. It needs ``apt install
chromium`` and ``pip install playwright``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

STROKES = {
    "7": "25,20 75,20 45,85",
    "1": "40,30 55,15 55,85",
    "0": "50,12 30,25 26,50 32,78 50,88 68,75 73,50 68,25 50,12",
    "3": "30,20 50,12 68,25 60,42 45,48 62,55 70,72 55,88 30,80",
    "2": "28,28 40,13 62,16 68,35 50,60 28,86 74,86",
    "6": "60,12 38,35 30,65 42,88 62,84 68,66 52,55 34,65",
}
"""Digits as points on the pad, in percent."""
KEYS = ["ArrowUp"] * 7 + ["Space"] + ["ArrowDown"] * 14 + ["Space"]
"""Keys that draw a 1."""


def draw(page: Any, points: str) -> str:
    """Returns what the page takes a drawing for."""
    page.click("text=Clear")
    box = page.locator("canvas.pad").bounding_box()
    for n, pair in enumerate(points.split()):
        x, y = (float(part) / 100 for part in pair.split(","))
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=8)
        if n == 0:
            page.mouse.down()
    page.mouse.up()
    return best(page)


def best(page: Any) -> str:
    page.wait_for_timeout(400)
    return str(page.inner_text("tr.best th"))


def softened(x: Any, weight: Any) -> Any:
    return np.tanh(x * weight).sum(0)


def main() -> int:
    from playwright.sync_api import sync_playwright

    from examples import digits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="keep pictures of the pages here")
    pictures, wrong = parser.parse_args().pictures, 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        options: Any = {"targets": ["wasm32"], "html": "inline"}
        network = lw.compile(digits.predict_cnn).lower(lw.f32["n", 8, 8, 1])
        network.bundle(folder, **options)
        lowered = lw.compile(softened).lower(lw.f32["rows", 5], lw.f32[()])
        example = np.ones((3, 5), np.float32), np.array(0.5, np.float32)
        lowered.bundle(folder, **options, example=example)
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"))
        for scheme, width in ("light", 1100), ("dark", 390):
            size: Any = {"width": width, "height": 900}
            page: Any = browser.new_context(color_scheme=scheme, viewport=size).new_page()
            page.on("pageerror", lambda error: print(error))
            page.goto(f"file://{folder}/predict_cnn.html")
            seen = {digit: draw(page, points) for digit, points in STROKES.items()}
            page.click("text=Clear")
            page.focus("canvas.pad")
            for key in KEYS:
                page.keyboard.press(key)
            seen["1 by keys"] = best(page)
            if pictures:
                page.screenshot(path=pictures / f"digits_{scheme}.png", full_page=True)
            page.click("#measure")
            page.wait_for_timeout(1000)
            print(seen, page.inner_text("#time"), page.inner_text("#calls"))
            page.goto(f"file://{folder}/softened.html")
            page.get_by_label("weight: numbers").fill("2")
            page.keyboard.press("Tab")
            page.wait_for_timeout(1000)
            shown = page.inner_text("tr.best td:last-child")
            if pictures:
                page.screenshot(path=pictures / f"numbers_{scheme}.png", full_page=True)
            expected = f"{3 * np.tanh(2):.4f}"
            print(f"{shown} for {expected}")
            wrong += shown != expected or any(digit[0] != read for digit, read in seen.items())
        browser.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
