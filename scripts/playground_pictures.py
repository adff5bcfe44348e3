"""Write docs/playground-*.png: every tab of a running server's playground, answered, as Chromium shows it.

    python scripts/playground_pictures.py http://127.0.0.1:3000 [--tabs forecast,chat] [--dark]

Needs Debian's chromium and chromium-driver. Pictures are brought down to 128 colours, so that each stays below 60 kB.
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

COLOURS, TALLEST, SETTLED_SECONDS = 128, 1060, 0.5


def main() -> None:
    """See the module's text."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("--tabs", default=",".join(TABS))
    options.add_argument("--dark", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, open_browser(Path(scratch)) as page:
        page.open(asked.url.rstrip("/"), scheme="dark" if asked.dark else "light")
        for name in asked.tabs.split(","):
            file = ROOT / "docs" / f"playground-{name}.png"
            file.write_bytes(picture(page, name))
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


def picture(page: Playground, name: str) -> bytes:
    """PNG of a tab with its answer."""
    page.resize(WIDTH, 900)
    page.tab(name)
    page.answered(name)
    page.script("window.scrollTo(0, 0)")
    height = page.script("return document.getElementById('panels').getBoundingClientRect().bottom")
    page.resize(WIDTH, min(TALLEST, int(height) + 40))
    time.sleep(SETTLED_SECONDS)  # plots are drawn anew for the width
    image = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    out = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "png", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
