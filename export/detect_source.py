"""Open what is pressed: a CLIP or CLIPSelf checkpoint, or an F-ViT detector, told by the names of its tensors.

    EVA                visual.blocks.*.attn.q_proj.weight
    OpenAI, open_clip  visual.transformer.resblocks.*.attn.in_proj_weight, text at the root or under text.
    F-ViT              backbone.visual.*, neck, rpn_head, roi_head; it has no text tower

Where a checkpoint has the image tower alone, the CLIP model it began with (`--clip`) gives the text tower. It gives the
weights for whole images, too: CLIPSelf makes dense features better and image embeddings worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from export.artifact import Source
from export.checkpoints import Checkpoint, read_checkpoint
from export.detect_configs import read_config
from export.detect_graph import Tower
from export.detect_labels import Vocabulary, check_templates, named_rows, read_embeddings, read_names
from export.errors import CheckpointFileError, HyperParameterError, OptionError
from models.clipself import checkpoint as clip_layout
from models.clipself.clip import Clip, build
from models.clipself.config import ClipConfig, ClipConfigError, parse_config
from models.clipself.fvit import checkpoint as fvit_layout
from models.clipself.fvit.config import FvitConfig, parse_fvit
from models.clipself.fvit.network import Fvit
from models.clipself.fvit.network import build as build_fvit
from models.clipself.labels import OFFICIAL
from models.clipself.text import TextTower
from models.clipself.tokenizer import VOCABULARY
from models.statedict import CheckpointError, Translation

Kind = Literal["clipself", "fvit"]
FVIT_VISUAL = "backbone.visual."
NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size", "attn_mask", "text.attn_mask")  # beside OpenAI's


@dataclass(frozen=True, kw_only=True)
class DetectJob:
    """Everything `pressroom export detect` was told.

    config      official sizes: a known name or a JSON file
    clip        the CLIP model the checkpoint began with
    blend       share of the checkpoint's own weights in those for whole images, 0..1
    embeddings  label embeddings; classes: their names, where the file has none
    templates   prompts, used as they stand
    size        longest side of an image inside the network, pixels
    precision   of the towers' weights and arithmetic; "int8": `export.int8`
    licence     of the weights
    """

    checkpoint: Path
    config: str
    name: str
    version: str | None = None
    clip: Path | None = None
    blend: float | None = None
    embeddings: Path | None = None
    classes: Path | None = None
    templates: Path | None = None
    size: int | None = None
    precision: Literal["fp32", "int8"] = "fp32"
    licence: str | None = None

    def __post_init__(self) -> None:
        if self.blend is not None and (self.clip is None or not 0 <= self.blend <= 1):
            raise OptionError("--blend is a share from 0 to 1 and goes with --clip", "name the CLIP model, too")
        if self.size is not None and self.size < 1:
            raise OptionError("--size is a number of pixels", "leave it away for the usual one")
        if self.precision not in ("fp32", "int8"):
            raise OptionError(f"precision {self.precision!r} is not known", "choose fp32 or int8")


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A checkpoint brought to life.

    visual  the image tower of dense maps; of a detector, its own
    image   other weights for whole images, if there are any; whole_image says in words which judge those
    """

    kind: Kind
    visual: Tower
    fvit: Fvit | None
    text: TextTower | None
    image: Tower | None
    whole_image: str
    scale: float
    vocabulary: Vocabulary | None
    templates: tuple[str, ...]
    official: dict[str, Any]
    source: Source
    config: ClipConfig
    fvit_config: FvitConfig | None = None


def open_job(job: DetectJob) -> Opened:
    """Raises ExportError naming the file or option that does not fit."""
    document = read_config(job.config)
    found = read_checkpoint(job.checkpoint, NO_WEIGHTS)
    original = None if job.clip is None else read_checkpoint(job.clip, NO_WEIGHTS)
    try:
        if any(name.startswith(FVIT_VISUAL) for name in found.state):
            return _open_fvit(job, document, found, original)
        return _open_clip(job, document, found, original)
    except ClipConfigError as error:
        raise HyperParameterError(f"--config: {error}", "use the model configuration of the training run") from None


def _open_clip(job: DetectJob, document: Mapping[str, Any], found: Checkpoint, original: Checkpoint | None) -> Opened:
    variant = clip_layout.variant_of(found.state)
    if variant is None:
        raise CheckpointFileError(f"{found.path.name} has no image tower known here", _hint(found.state))
    config = parse_config(document["config"], variant)
    state, notes = dict(found.state), list(found.source.notes)
    if "text_projection" not in state and "text.text_projection" not in state:
        if original is None:
            raise OptionError(f"{found.path.name} has no text tower", "name the CLIP model it began with: --clip FILE")
        state |= {name: tensor for name, tensor in original.state.items() if not name.startswith("visual.")}
        notes.append(f"text tower and logit_scale from {original.path.name}, sha256 {original.source.sha256}")
    network, dropped = _load(state, config, found.path.name)
    image, whole_image = _whole_image(job, network.visual, config, original)
    if image is not None and original is not None:
        notes.append(f"whole images: {whole_image}, from {original.path.name}, sha256 {original.source.sha256}")
    return Opened(
        kind="clipself",
        visual=network.visual,
        fvit=None,
        text=_usable_text(network, notes),
        image=image,
        whole_image=whole_image,
        scale=float(network.logit_scale.exp()),
        vocabulary=_vocabulary(job, document, None),
        templates=_templates(job, document),
        official=dict(document["config"]),
        source=found.source.model_copy(update={"dropped": dropped, "notes": notes}),
        config=config,
    )


def _open_fvit(job: DetectJob, document: Mapping[str, Any], found: Checkpoint, original: Checkpoint | None) -> Opened:
    official = document["config"]
    config = parse_fvit(official)
    clip_config = parse_config(official["clip"], clip_layout.variant_of(found.state, FVIT_VISUAL))
    translated = _translated(lambda: fvit_layout.translate(found.state, config), found.path.name)
    fvit = build_fvit(config)
    fvit.load_state_dict(translated.state, strict=True)
    notes, text, image, scale = list(found.source.notes), None, None, 100.0
    if original is not None:
        network, _ = _load(original.state, clip_config, original.path.name)
        text, image, scale = _usable_text(network, notes), network.visual, float(network.logit_scale.exp())
        notes.append(f"text tower from {original.path.name}, sha256 {original.source.sha256}")
    return Opened(
        kind="fvit",
        visual=fvit.backbone.visual,
        fvit=fvit,
        text=text,
        image=image,
        whole_image="the CLIP model's own weights" if image is not None else "",
        scale=scale,
        vocabulary=_vocabulary(job, document, fvit_layout.embeddings(found.state)),
        templates=_templates(job, document),
        official=dict(official),
        source=found.source.model_copy(update={"dropped": translated.dropped, "notes": notes}),
        config=clip_config,
        fvit_config=config,
    )


def _load(state: Mapping[str, Tensor], config: ClipConfig, file: str) -> tuple[Clip, list[str]]:
    translated = _translated(lambda: clip_layout.translate(state, config), file)
    network = build(config)
    network.load_state_dict(translated.state, strict=True)
    return network, translated.dropped


def _translated(translate: Any, file: str) -> Translation:
    try:
        taken: Translation = translate()
    except CheckpointError as error:
        shown = "; ".join(error.problems[:5]) + (" ..." if len(error.problems) > 5 else "")
        raise CheckpointFileError(f"{file}: {shown}", error.hint) from None
    return taken


def _whole_image(
    job: DetectJob, visual: Tower, config: ClipConfig, original: Checkpoint | None
) -> tuple[Tower | None, str]:
    """Weights for whole images, where they are not the checkpoint's own."""
    if original is None or clip_layout.variant_of(original.state) is None:
        return None, "the checkpoint's own weights"
    before, _ = _load(original.state, config, original.path.name)
    own = job.blend or 0.0
    if own:
        mine = visual.state_dict()
        mixed = {name: torch.lerp(t, mine[name], own) for name, t in before.visual.state_dict().items()}
        before.visual.load_state_dict(mixed, strict=True)
    words = (
        f"weights from before and after its training, {own:g} of the latter"
        if own
        else "weights from before its training"
    )
    return before.visual, words


def _usable_text(network: Clip, notes: list[str]) -> TextTower | None:
    """A tower whose vocabulary is not CLIP's cannot read our tokens."""
    size = network.config.text.vocab_size
    if size == VOCABULARY:
        return network.text
    notes.append(f"the text tower has {size} tokens, CLIP's tokenizer {VOCABULARY}: it is left out")
    return None


def _vocabulary(job: DetectJob, document: Mapping[str, Any], trained: Tensor | None) -> Vocabulary | None:
    """Label embeddings of a file, or those a detector was trained with; the background's are the detector's own."""
    official = document["config"]
    names = read_names(job.classes) if job.classes else official.get("classes")
    seen = official.get("seen")
    background = None if trained is None else trained[-1].clone()
    if job.embeddings is not None:
        found = read_embeddings(job.embeddings, names, seen)
        return found if found.background is not None else replace(found, background=background)
    if trained is None:
        return None
    if names is None:  # unnamed: a text tower must say what the caller's labels mean
        return Vocabulary((), trained[:0].clone(), background, ())
    return named_rows(trained, names, seen, "the checkpoint")


def _templates(job: DetectJob, document: Mapping[str, Any]) -> tuple[str, ...]:
    return check_templates(read_names(job.templates) if job.templates else document.get("templates") or OFFICIAL)


def _hint(state: Mapping[str, Tensor]) -> str:
    if any(name.startswith("vision_model.") for name in state):
        return "this is transformers' layout: save the model from open_clip or EVA-CLIP instead"
    if all((tensor.ndim <= 2 and min(tensor.shape or (0,)) <= 1) or tensor.ndim == 1 for tensor in state.values()):
        return "these look like label embeddings: name them with --embeddings, beside a CLIP checkpoint"
    return "expected visual.blocks.*, visual.transformer.resblocks.* or backbone.visual.*"
