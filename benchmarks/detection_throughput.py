"""What a region costs: boxes pooled from one dense map against every box cut out and classified.

Four ways, side by side in one run, interleaved, the same boxes of the same scenes:
    one image        `regions`, one request at a time
    images together  `regions`, several requests in flight, which the server joins
    one crop         `classify`, a request for each box, one at a time
    crops together   `classify`, several in flight
Costs are CPU time of the server's processes (who else is on the machine hardly matters); rates are what one client saw.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from PIL import Image
from pressroom_client import AsyncClient

from benchmarks.cpu import ServerCpu
from benchmarks.detection_accuracy import SCENES, labels, scenes
from benchmarks.server import Gateway

BOXES = (1, 16, 256)
IN_FLIGHT = 16
WAYS = ("one image", "images together", "one crop", "crops together")
REGIONS = {1: 48, 16: 256, 256: 1024}  # regions a way and round: enough to be measured, few enough to be waited for
SIDES = (27, 87)  # of boxes, pixels, as in the scenes

Ask = Callable[[AsyncClient], Awaitable[object]]


@dataclass(frozen=True)
class Cost:
    """One way at one number of boxes an image. cpu_ms: of the server, a region; rate: regions a second."""

    way: str
    boxes: int
    cpu_ms: float
    rate: float


@dataclass(frozen=True)
class Picture:
    """A scene's pixels, boxes [R, 4] on it, and what they cut out."""

    pixels: np.ndarray
    boxes: np.ndarray
    crops: list[np.ndarray]


def measure(server: Gateway, model: str, rounds: int, tick: Callable[[str], None]) -> list[Cost]:
    """Medians over rounds; a round measures every way once."""
    return asyncio.run(_measure(server, model, rounds, tick))


async def _measure(server: Gateway, model: str, rounds: int, tick: Callable[[str], None]) -> list[Cost]:
    account = ServerCpu(server.pid)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    async with AsyncClient(server.url, timeout=300) as client:
        for boxes in BOXES:
            pictures = _pictures(boxes)
            asks = {way: _asks(way, pictures, boxes, model) for way in WAYS}
            for way in WAYS:
                await _send(client, asks[way][:2], way)
            for _ in range(rounds):
                for way in WAYS:
                    tick(f"{boxes} boxes, {way}")
                    found.setdefault((boxes, way), []).append(await _once(client, account, asks[way], way, boxes))
    return [
        Cost(way, boxes, median(cpu for cpu, _ in costs), median(rate for _, rate in costs))
        for (boxes, way), costs in found.items()
    ]


async def _once(
    client: AsyncClient, account: ServerCpu, asks: Sequence[Ask], way: str, boxes: int
) -> tuple[float, float]:
    """CPU milliseconds a region, regions a second."""
    regions = len(asks) * (1 if "crop" in way else boxes)
    before, began = account.read(), time.perf_counter()
    await _send(client, asks, way)
    seconds, spent = time.perf_counter() - began, account.read().since(before)
    return 1000 * (spent.workers + spent.supervisor) / regions, regions / seconds


async def _send(client: AsyncClient, asks: Sequence[Ask], way: str) -> None:
    gate = asyncio.Semaphore(IN_FLIGHT if "together" in way else 1)

    async def guarded(ask: Ask) -> None:
        async with gate:
            await ask(client)

    await asyncio.gather(*map(guarded, asks))


def _asks(way: str, pictures: list[Picture], boxes: int, model: str) -> list[Ask]:
    names = labels()
    if "crop" in way:
        crops = [crop for picture in pictures for crop in picture.crops][: REGIONS[boxes]]
        return [partial(_classify, crop=crop, names=names, model=model) for crop in crops]
    return [partial(_regions, picture=picture, names=names, model=model) for picture in pictures]


async def _classify(client: AsyncClient, *, crop: np.ndarray, names: list[str], model: str) -> object:
    return await client.classify(crop, names, model=model, top_k=1, return_scores=False)


async def _regions(client: AsyncClient, *, picture: Picture, names: list[str], model: str) -> object:
    return await client.regions(picture.pixels, picture.boxes, names, model=model, top_k=1, return_scores=False)


def _pictures(boxes: int) -> list[Picture]:
    """As many scenes as make REGIONS[boxes] boxes; drawn at random, sizes as in the scenes."""
    random, files = np.random.default_rng(0), scenes()
    made = []
    for i in range(max(REGIONS[boxes] // boxes, 1)):
        with Image.open(SCENES / files[i % len(files)]["image"]) as opened:
            pixels = np.asarray(opened.convert("RGB"))
        height, width = pixels.shape[:2]
        sides = random.integers(*SIDES, (boxes, 2))
        corners = (random.random((boxes, 2)) * (np.array([width, height]) - sides)).astype(int)
        placed = np.concatenate([corners, corners + sides], axis=1)
        made.append(Picture(pixels, placed, [pixels[y0:y1, x0:x1].copy() for x0, y0, x1, y1 in placed]))
    return made


HEADINGS = ("boxes an image", *(f"{way}, ms" for way in WAYS), "regions/s, together", "crops/s, together", "gain")


def rows(costs: list[Cost]) -> list[list[str]]:
    """Lines of the table; gain: crops' cost by regions' cost, both together."""
    table = []
    for boxes in BOXES:
        by = {one.way: one for one in costs if one.boxes == boxes}
        gain = by["crops together"].cpu_ms / by["images together"].cpu_ms
        line = [str(boxes), *(f"{by[way].cpu_ms:.2f}" for way in WAYS)]
        rates = [f"{by[way].rate:,.0f}" for way in ("images together", "crops together")]
        table.append([*line, *rates, f"{gain:.1f} x"])
    return table


def beaten(costs: list[Cost]) -> list[int]:
    """Numbers of boxes, of 16 and more, at which cropping is not dearer, one by one or together."""
    found = []
    for boxes in BOXES:
        by = {one.way: one.cpu_ms for one in costs if one.boxes == boxes}
        dear = by["crops together"] > by["images together"] and by["one crop"] > by["one image"]
        if boxes >= 16 and not dear:
            found.append(boxes)
    return found
