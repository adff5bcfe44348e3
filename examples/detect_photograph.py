"""Ask what a photograph shows, in your words, and draw the answer:

    python examples/detect_photograph.py [IMAGE] [--labels cat,pizza] [--url URL] [--model NAME] [--out FILE]

Needs a running server (`make serve`) and Pillow. The small model that comes with Pressroom knows drawings of 40 things;
press a published checkpoint for photographs (docs/detection.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pressroom_client import Client

PHOTOGRAPH = Path(__file__).resolve().parents[1] / "data" / "photographs" / "chelsea.jpg"
BOX = (95, 5, 340, 295)  # around the cat's head, pixels


def main() -> None:
    parser = argparse.ArgumentParser(description="Find things in a photograph.")
    parser.add_argument("image", nargs="?", type=Path, default=PHOTOGRAPH)
    parser.add_argument("--labels", default="cat,fire engine,anchor,broccoli", help="your words, comma separated")
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="http://host:port or grpc://host:port")
    parser.add_argument("--model", default="clipself-tiny")
    parser.add_argument("--out", type=Path, default=Path("out/detected.png"))
    options = parser.parse_args()
    labels = options.labels.split(",")

    with Client(options.url) as client:
        whole = client.classify(options.image, labels, model=options.model)
        boxes = client.regions(options.image, [BOX], labels, model=options.model)
        found = client.detect(options.image, labels, model=options.model, proposals="grid", max_detections=5)

    print(f"{whole.model}:{whole.version} {whole.digest}")
    print(f"the whole picture: {whole.label}, {whole.score:.0%}")
    print(f"inside the box:    {boxes[0].label}, {boxes[0].score:.0%}")
    for thing in found:
        print(f"found:             {thing.label}, {thing.score:.0%}, at {[round(side) for side in thing.box]}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found.draw().save(options.out)
    print(f"drawn to {options.out}")


if __name__ == "__main__":
    main()
