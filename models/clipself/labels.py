"""From a label to one embedding: many prompts, their mean (the 63 prompts of ViLD and CLIPSelf)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.clipself.tokenizer import END, START

TEMPLATES: tuple[str, ...] = (
    "There is {article} {} in the scene.",
    "There is the {} in the scene.",
    "a photo of {article} {} in the scene.",
    "a photo of the {} in the scene.",
    "a photo of one {} in the scene.",
    "itap of {article} {}.",
    "itap of my {}.",
    "itap of the {}.",
    "a photo of {article} {}.",
    "a photo of my {}.",
    "a photo of the {}.",
    "a photo of one {}.",
    "a photo of many {}.",
    "a good photo of {article} {}.",
    "a good photo of the {}.",
    "a bad photo of {article} {}.",
    "a bad photo of the {}.",
    "a photo of a nice {}.",
    "a photo of the nice {}.",
    "a photo of a cool {}.",
    "a photo of the cool {}.",
    "a photo of a weird {}.",
    "a photo of the weird {}.",
    "a photo of a small {}.",
    "a photo of the small {}.",
    "a photo of a large {}.",
    "a photo of the large {}.",
    "a photo of a clean {}.",
    "a photo of the clean {}.",
    "a photo of a dirty {}.",
    "a photo of the dirty {}.",
    "a bright photo of {article} {}.",
    "a bright photo of the {}.",
    "a dark photo of {article} {}.",
    "a dark photo of the {}.",
    "a photo of a hard to see {}.",
    "a photo of the hard to see {}.",
    "a low resolution photo of {article} {}.",
    "a low resolution photo of the {}.",
    "a cropped photo of {article} {}.",
    "a cropped photo of the {}.",
    "a close-up photo of {article} {}.",
    "a close-up photo of the {}.",
    "a jpeg corrupted photo of {article} {}.",
    "a jpeg corrupted photo of the {}.",
    "a blurry photo of {article} {}.",
    "a blurry photo of the {}.",
    "a pixelated photo of {article} {}.",
    "a pixelated photo of the {}.",
    "a black and white photo of the {}.",
    "a black and white photo of {article} {}.",
    "a plastic {}.",
    "the plastic {}.",
    "a toy {}.",
    "the toy {}.",
    "a plushie {}.",
    "the plushie {}.",
    "a cartoon {}.",
    "the cartoon {}.",
    "an embroidered {}.",
    "the embroidered {}.",
    "a painting of the {}.",
    "a painting of a {}.",
)
PREFIX = "This is "  # before prompts that begin with "a" or "the", as the official evaluation writes them
OFFICIAL: tuple[str, ...] = tuple(f"{PREFIX}{text}" if text.startswith(("a", "the")) else text for text in TEMPLATES)
_SPECIAL = re.compile(f"{re.escape(START)}|{re.escape(END)}", re.IGNORECASE)
_PLACES = re.compile(r"\{[^{}]*\}?|\}")


def prompts(label: str, templates: Sequence[str] = OFFICIAL) -> list[str]:
    """One prompt a template: `{}` is the label, `{article}` a or an. Nothing else in a template has a meaning."""
    name = label_text(label)
    article = "an" if name and name[0] in "aeiou" else "a"
    return [template.replace("{article}", article).replace("{}", name) for template in templates]


def label_text(label: str) -> str:
    """A label as prompts take it: special tokens removed (they would cut the text), `_` a space, `/` an "or"."""
    plain = _SPECIAL.sub(" ", label)
    return plain.replace("_", " ").replace("/", " or ").lower().strip().rstrip(". ")


def is_template(text: str) -> bool:
    """Whether a text has one place for the label, and no other than that and `{article}`."""
    places = _PLACES.findall(text)
    return places.count("{}") == 1 and all(place in ("{}", "{article}") for place in places)
