"""The fields of an image request: checked one by one, so that a refusal names the place and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from models.clipself.labels import is_template, label_text
from models.clipself.pipeline.spec import DetectSpec
from models.errors import InputError

Json = dict[str, Any]
TaskName = Literal["regions", "detect", "segment", "classify"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)

_COMMON = ("model", "version", "task", "image", "labels", "templates", "size")
FIELDS: dict[TaskName, tuple[str, ...]] = {
    "regions": ("boxes", "masks", "top_k", "return_scores"),
    "detect": ("threshold", "thresholds", "max_detections", "overlap", "class_agnostic", "proposals"),
    "segment": ("output", "background_threshold", "resolution"),
    "classify": ("top_k", "return_scores", "fit"),
}
LONGEST = 512  # characters of a label or template
MOST_TEMPLATES = 128
MOST = 1_000_000  # of whatever is counted


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may ask for: pixels of its image, side inside the network, regions, labels."""

    max_pixels: int = 40_000_000
    max_side: int = 1024
    max_regions: int = 1024
    max_labels: int = 2048


@dataclass(frozen=True)
class Labels:
    """What to look for. names: as the caller wrote them; templates: prompts they are put into."""

    names: tuple[str, ...]
    templates: tuple[str, ...]


def check_fields(request: Mapping[str, Any], task: TaskName) -> None:
    """Raises InputError (invalid_request) naming the first unknown field, or a `task` that is another route's."""
    known = (*_COMMON, *FIELDS[task])
    if unknown := sorted(name for name in request if name not in known):
        raise refused(unknown[0][:60], f"unknown field {unknown[0][:60]!r}", f"a request has {', '.join(known)}")
    if request.get("task") not in (None, task):
        raise refused("task", f"task is {str(request['task'])[:40]!r}, this route is {task!r}")


def read_labels(request: Mapping[str, Any], spec: DetectSpec, limits: Limits) -> Labels:
    """The request's labels, or the artifact's own vocabulary. Raises InputError."""
    sent, templates = request.get("labels"), read_templates(request.get("templates"), spec)
    if sent is None:
        if not spec.vocabulary:
            raise refused("labels", "labels are missing", "name what to look for, as labels: [...]")
        return Labels(spec.vocabulary, templates)
    if not isinstance(sent, list) or not all(isinstance(label, str) for label in sent):
        raise refused("labels", "labels must be a list of texts")
    if not sent:
        raise refused("labels", "labels is an empty list", "name at least one")
    if len(sent) > limits.max_labels:
        raise InputError("too_many_rows", f"{len(sent)} labels came, the limit is {limits.max_labels}", field="labels")
    _check_each(sent, spec)
    return Labels(tuple(sent), templates)


def _check_each(labels: list[str], spec: DetectSpec) -> None:
    places: dict[str, int] = {}
    for i, label in enumerate(labels):
        field, text = f"labels[{i}]", label_text(label)
        if not text or len(label) > LONGEST:
            what = f"is longer than {LONGEST} characters" if text else "says nothing"
            raise InputError("label_invalid", f"the label {what}", field=field)
        if (first := places.setdefault(text, i)) != i:
            raise InputError(
                "label_invalid", f"the label {label[:60]!r} is the same as labels[{first}]", field=field,
                hint="send each label once",
            )  # fmt: skip
        if not spec.context_length and label not in spec.vocabulary:
            raise InputError(
                "label_invalid",
                f"the label {label[:60]!r} is not in the model's vocabulary, and it has no text tower",
                field=field,
                hint=f"its labels: {', '.join(spec.vocabulary)}",
            )


def read_templates(sent: Any, spec: DetectSpec) -> tuple[str, ...]:
    """Prompts a label is put into. Raises InputError (label_invalid)."""
    if sent is None:
        return spec.templates
    if not isinstance(sent, list) or not sent or len(sent) > MOST_TEMPLATES:
        raise refused("templates", f"templates must be a list of 1 to {MOST_TEMPLATES} texts")
    for i, text in enumerate(sent):
        if not isinstance(text, str) or len(text) > LONGEST or not is_template(text):
            raise InputError(
                "label_invalid",
                "a template is a text with one {} for the label and perhaps {article}",
                field=f"templates[{i}]",
                hint='for example "a photo of {article} {}."',
            )
    return tuple(sent)


def read_side(request: Mapping[str, Any], spec: DetectSpec, limits: Limits) -> int:
    """Side of the network's square. Raises InputError where more is asked for than the server allows."""
    size = whole(request, "size", None)
    if size is not None and size > limits.max_side:
        raise refused("size", f"size {size} was asked for, the limit is {limits.max_side}")
    return spec.side(min(spec.size, limits.max_side) if size is None else size)


def whole(request: Mapping[str, Any], field: str, default: int | None) -> int | None:
    """A whole number of 1 and more."""
    value = request.get(field)
    if value is None:
        return default
    if type(value) is not int or not 1 <= value <= MOST:
        raise refused(field, f"{field} must be a whole number from 1 to {MOST}")
    return value


def share(request: Mapping[str, Any], field: str, default: float | None) -> float | None:
    """A number from 0 to 1."""
    value = request.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise refused(field, f"{field} must be a number from 0 to 1")
    return float(value)


def flag(request: Mapping[str, Any], field: str, default: bool) -> bool:
    """True or false."""
    value = request.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise refused(field, f"{field} must be true or false")
    return value


def choice(request: Mapping[str, Any], field: str, choices: tuple[str, ...]) -> str:
    """One of some words; the first is the default."""
    value = request.get(field)
    if value is None:
        return choices[0]
    if value not in choices:
        raise refused(field, f"{field} {str(value)[:40]!r} is not known", f"one of {', '.join(choices)}")
    return str(value)


def refused(field: str, message: str, hint: str | None = None) -> InputError:
    """A request that cannot be made as it is."""
    return InputError("invalid_request", message, field=field, hint=hint)
