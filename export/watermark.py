"""Press a watermarking scheme: a language model's artifact and a text -> verified artifact in the store.

open the generator -> count the proxy -> certify -> example -> describe -> store
Nothing is stored unless every step succeeded, and nothing uses the network.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from export.artifact import EXAMPLE, PARITY, Artifact, open_artifact
from export.errors import OptionError
from export.llm_manifest import FAMILY as LLM
from export.llm_tokens import TOKENIZER
from export.progress import Report, silent
from export.prune import bundled_text
from export.store import Stored, check_tag, file_entries, store
from export.watermark_example import Generator, described, make_example, read_example, same
from export.watermark_manifest import WatermarkFacts
from export.watermark_parity import Finding, certificate, check_cases, draw_cases
from export.watermark_text import read_proxy_text
from models.balance_marking.config import MarkingError
from models.balance_marking.proxy import BigramProxy
from models.balance_marking.scheme import MarkingScheme
from models.llm.spec import LanguageModelSpec

PROXY = "proxy.safetensors"
DEFAULT_TEXT = "wikitext2_calibration.txt"
_STEPS = ("open the generator", "count the proxy", "certify", "write the example", "store")


@dataclass(frozen=True, kw_only=True)
class WatermarkJob:
    """Everything `pressroom export watermark` was told.

    generator   name[:version] of a language model's artifact in the store
    proxy_text  UTF-8 text the proxy is counted from; None: the repository's calibration cut of WikiText-2
    settings    of the scheme, other than its vocabulary; what is missing has MarkingScheme's default
    """

    generator: str
    name: str
    version: str | None = None
    proxy_text: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pressed:
    """A finished export: where it is stored, its certificate, the example."""

    stored: Stored
    certificate: dict[str, Any]
    example: dict[str, Any]
    scheme: MarkingScheme


def press(job: WatermarkJob, report: Report = silent) -> Pressed:
    """Press one scheme. Raises ExportError or ArtifactError with the reason and the way out; nothing is stored then."""
    check_tag(job.name, job.version)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        report(_STEPS[0], 0, len(_STEPS))
        generator = open_generator(job.generator)
        scheme = _scheme(job, generator.spec.vocabulary)
        shutil.copyfile(generator.artifact.file(TOKENIZER), files / TOKENIZER)
        report(_STEPS[1], 1, len(_STEPS))
        text = read_proxy_text(_proxy_text(job), generator.tokenizer)
        proxy = BigramProxy.from_texts(text.paragraphs, scheme.vocabulary)
        save_file(proxy.arrays(), files / PROXY)
        report(_STEPS[2], 2, len(_STEPS))
        draw_cases(scheme, proxy, files)
        proof = certificate(check_cases(scheme, proxy, files))
        _write_json(files / PARITY, proof)
        report(_STEPS[3], 3, len(_STEPS))
        example = make_example(generator, scheme, proxy)
        _write_json(files / EXAMPLE, example)
        report(_STEPS[4], 4, len(_STEPS))
        facts = WatermarkFacts(
            scheme=scheme,
            generator=generator.artifact,
            text=text,
            pairs=len(proxy.arrays()["followers"]),
            files=file_entries(files),
        )
        manifest_for = partial(facts.manifest, job.name)
        stored = store(manifest_for, files, name=job.name, version=job.version, verdict=proof["verdict"])
    report(_STEPS[4], len(_STEPS), len(_STEPS))
    return Pressed(stored, proof, example, scheme)


def open_generator(tag: str) -> Generator:
    """A language model of the store. Raises ArtifactError, or OptionError where it is none."""
    name, _, version = tag.partition(":")
    artifact = open_artifact(name, version or None)
    if artifact.manifest.family != LLM:
        told = f"--generator {artifact.tag} is of family {artifact.manifest.family!r}"
        raise OptionError(told, "name a language model; `pressroom models` lists them")
    tokenizer = Tokenizer.from_file(str(artifact.file(TOKENIZER)))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Generator(artifact, LanguageModelSpec.from_settings(artifact.manifest.settings), tokenizer)


@dataclass(frozen=True)
class Rechecked:
    """A stored scheme, read again: its cases, and whether the example says the same."""

    findings: list[Finding]
    example: bool

    @property
    def holds(self) -> bool:
        """Whether all of it does."""
        return self.example and all(one.holds for one in self.findings)


def recheck(artifact: Artifact) -> Rechecked:
    """Repeat what a stored scheme was certified for; needs neither its generator nor a key."""
    scheme = MarkingScheme.from_settings(artifact.manifest.settings["scheme"])
    proxy = BigramProxy(load_file(artifact.file(PROXY)))
    example = artifact.read_json(EXAMPLE)
    tokenizer = Tokenizer.from_file(str(artifact.file(TOKENIZER)))
    again = described(read_example(tokenizer, scheme, proxy, example["request"]["text"]))
    return Rechecked(check_cases(scheme, proxy, artifact.path), same(example["response"], again))


def _scheme(job: WatermarkJob, vocabulary: int) -> MarkingScheme:
    try:
        return MarkingScheme(vocabulary=vocabulary, **job.settings)
    except MarkingError as fault:
        raise OptionError(f"--{fault.field.replace('_', '-')}: {fault.message}", fault.hint) from None


def _proxy_text(job: WatermarkJob) -> Path:
    found = job.proxy_text or bundled_text(DEFAULT_TEXT)
    if found is None:
        raise OptionError("no text for the proxy", "name one with --proxy-text FILE")
    return found


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
