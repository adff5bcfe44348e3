"""Write docs/playground-*.png: every tab of a running server's playground, answered, as Chromium shows it.

    python scripts/playground_pictures.py http://127.0.0.1:3000 [--tabs forecast,chat] [--dark]

Needs Debian's chromium and chromium-driver. Pictures are brought down to as many colours as leave them below 56 kB.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
sys.path.append(str(ROOT / "tests" / "ui"))

from browsing import TABS, WIDTH, Playground, open_browser  # noqa: E402

COLOURS, MOST_BYTES, TALLEST, SETTLED_SECONDS = (128, 96, 64, 48, 32, 24), 56_000, 960, 0.5
TEXT = (
    "The ferry left an hour late because somebody had parked a tractor on the slipway. Nobody minded much. The "
    "captain, who sold honey on the side, walked up and down with a tray of small glasses, and the children counted "
    "jellyfish. It was one of the most important events in the history of the island, and it was also one of the "
    "most important events in the history of the world. The island is located in the north of the country, and it "
    "is known for its beautiful beaches and its rich history. We ate plums. Towards evening the wind turned, as my "
    "aunt had said it would, and the whole bay smelled of tar and thyme."
)


def main() -> None:
    """See the module's text."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("--tabs", default=",".join(TABS))
    options.add_argument("--dark", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, open_browser(Path(scratch)) as page:
        page.command("Emulation.setScrollbarsHidden", hidden=True)
        page.open(asked.url.rstrip("/"), scheme="dark" if asked.dark else "light")
        for name in asked.tabs.split(","):
            file = ROOT / "docs" / f"playground-{name}.png"
            file.write_bytes(picture(page, name))
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


def picture(page: Playground, name: str) -> bytes:
    """PNG of a tab with its answer."""
    page.resize(WIDTH, 900)
    page.tab(name)
    if name == "text":
        page.write("Text", TEXT)
    page.answered(name)
    page.script("window.scrollTo(0, 0)")
    height = page.script("return document.getElementById('panels').getBoundingClientRect().bottom")
    page.resize(WIDTH, min(TALLEST, int(height) + 40))
    if len(page.all(f"#panel-{name} .bench")) > 1:  # what is read from a text says more than the text
        page.script("arguments[0].scrollIntoView()", page.all(f"#panel-{name} .bench")[-1])
    time.sleep(SETTLED_SECONDS)  # plots are drawn anew for the width
    image = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    return next(found for colours in COLOURS if len(found := compressed(image, colours)) < MOST_BYTES)


def compressed(image: Image.Image, colours: int) -> bytes:
    """PNG whose palette holds the commonest colours as they are in one half, the others brought down in the other."""
    counted = sorted(image.getcolors(image.width * image.height), reverse=True)
    common = [colour for _, colour in counted[: colours // 2]]
    rest = Image.new("RGB", (len(counted), 1))
    rest.putdata([colour for _, colour in counted])
    drawn = rest.quantize(colours - len(common)).getpalette()[: 3 * (colours - len(common))]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in common for part in colour] + drawn)
    out = io.BytesIO()
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(out, "png", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
