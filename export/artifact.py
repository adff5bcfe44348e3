"""The artifact: a self-describing, digest-addressed directory in BentoML's model store, and its reader.

    artifact.json   this module's `Manifest`: what the model is, what it takes, the sha256 of every other file
    parity.json     the parity certificate (`export.parity`)
    example.json    a raw request with its expected answer: warm-up, readiness gate, dry run, documentation
    model.onnx | network.safetensors     the weights; never a pickle

The artifact's digest is the sha256 of `artifact.json`; it names every other file by digest, so one number pins all
bytes. The store's label `pressroom.digest` records it, which is how an edited manifest is noticed.
Services import this module only; writing belongs to `export.store`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import bentoml
from pydantic import BaseModel, ConfigDict, ValidationError

MANIFEST = "artifact.json"
PARITY = "parity.json"
EXAMPLE = "example.json"
DIGEST_LABEL = "pressroom.digest"
FAMILY_LABEL = "pressroom.family"
BACKBONE_LABEL = "pressroom.backbone"
ADAPTER_FAMILY, ADAPTER_FILE = "ehr-adapter", "adapter.json"
STORE_FILES = frozenset({"model.yaml"})  # written by BentoML itself, not part of the artifact


class ArtifactError(RuntimeError):
    """An artifact is missing, damaged, edited or of an unknown format; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Paper(_Frozen):
    """The publication a network comes from."""

    title: str
    venue: str
    url: str


class Official(_Frozen):
    """The official repository whose behaviour is reproduced, and the licence of code and weights."""

    repository: str
    commit: str
    licence: str


class Source(_Frozen):
    """The checkpoint that was pressed: bare file name, format, sha256, and what was not taken over.

    format "artifact": none; another artifact is used, whose tag and digest stand for file and sha256
    format "text": none; what is served was counted from a text
    """

    file: str
    format: Literal["pth", "safetensors", "gguf", "onnx", "artifact", "text"]
    sha256: str
    tensors: int
    dropped: list[str] = []  # official tensor names the forward pass never reads
    notes: list[str] = []  # e.g. "2 float64 tensors converted to float32"


Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]  # the Open Inference Protocol's names


class TensorSpec(_Frozen):
    """One tensor of the served signature. shape: -1 or a name for a dynamic axis, first axis is the batch."""

    name: str
    dtype: Datatype
    shape: list[int | str]
    unit: str
    meaning: str
    range: str = "finite"
    optional: bool = False


def document(name: str, meaning: str) -> TensorSpec:
    """A JSON document as one BYTES element: how requests travel that are no tensors."""
    return TensorSpec(name=name, dtype="BYTES", shape=[1], unit="1", meaning=meaning, range="UTF-8")


class Signature(_Frozen):
    """Inputs and outputs of the served model, in raw units."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]


class Runtime(_Frozen):
    """How the weights run: an ONNX graph in onnxruntime, or our own network in torch.

    engine  there are none of its own: the generation engine of another artifact, whose tag is `file`
    """

    kind: Literal["onnx", "torch", "engine"]
    file: str
    opset: int | None = None


class FileEntry(_Frozen):
    """Digest and size of one file of the artifact."""

    sha256: str
    bytes: int


class Metric(_Frozen):
    """One evaluation figure with the data it was measured on; `origin` says who measured it."""

    name: str
    value: float
    data: str
    split: str
    unit: str = ""
    windows: int | None = None
    origin: Literal["measured", "paper", "checkpoint"] = "measured"


class Manifest(_Frozen):
    """`artifact.json`. Holds no dates: pressing the same bytes twice gives the same digest."""

    format_version: Literal[1] = 1
    name: str
    version: str
    family: str
    architecture: str
    paper: Paper
    official: Official
    source: Source
    hyper_parameters: dict[str, Any]  # official names
    hyper_parameter_origins: dict[str, str] = {}
    signature: Signature
    request: str  # what the client sends raw, in words
    pipeline: list[str]  # what is done with it, step by step, in words
    settings: dict[str, Any]  # what the family's pipeline needs, e.g. columns, frequency, scaler
    runtime: Runtime
    files: dict[str, FileEntry]
    metrics: list[Metric] = []

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}"

    def dump(self) -> bytes:
        """The bytes of `artifact.json`: sorted keys, two-space indent, trailing newline."""
        return (json.dumps(self.model_dump(), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def sha256_file(path: Path) -> str:
    """Hexadecimal sha256 of a file's bytes."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def digest_of(manifest_bytes: bytes) -> str:
    """The artifact's digest, `sha256:<64 hex>`."""
    return "sha256:" + hashlib.sha256(manifest_bytes).hexdigest()


@dataclass(frozen=True)
class Artifact:
    """A verified artifact on disk: every digest was checked when it was opened."""

    path: Path
    manifest: Manifest
    digest: str
    created: int  # epoch seconds, from the store's own record

    @property
    def tag(self) -> str:
        return self.manifest.tag

    def file(self, name: str) -> Path:
        return self.path / name

    def read_json(self, name: str) -> Any:
        return json.loads(self.file(name).read_bytes())


def read_artifact(path: Path, *, recorded_digest: str | None = None, created: int = 0) -> Artifact:
    """Open the artifact in a directory, checking the manifest and the digest of every file.

    recorded_digest  the digest the store recorded when it was written; None skips that comparison
    Raises ArtifactError naming the file that is missing, damaged, edited or unexpected.
    """
    raw = _read_manifest_bytes(path)
    digest = digest_of(raw)
    if recorded_digest is not None and digest != recorded_digest:
        raise ArtifactError(
            f"{MANIFEST} was edited: its digest is {digest}, the store recorded {recorded_digest}",
            "export the checkpoint again, or restore the file",
        )
    try:
        manifest = Manifest.model_validate_json(raw)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise ArtifactError(
            f"{MANIFEST}: {where}: {first['msg']}",
            "this artifact was written by another version of Pressroom: export it again",
        ) from None
    _check_files(path, manifest)
    return Artifact(path, manifest, digest, created)


def open_artifact(name: str, version: str | None = None) -> Artifact:
    """Open `name` (or `name:version`) from BentoML's store; no version means the latest.

    Raises ArtifactError if the store has no such artifact, if it was not written by Pressroom, or if a file is damaged.
    """
    tag = f"{name}:{version}" if version else name
    try:
        stored = bentoml.models.get(tag)
    except bentoml.exceptions.BentoMLException:
        raise ArtifactError(f"no artifact {tag} in the model store", "`pressroom models` lists what is there") from None
    wanted = tag.partition(":")[2]
    if wanted not in ("", "latest") and stored.tag.version != wanted:  # the store also matches prefixes
        raise ArtifactError(f"no artifact {tag} in the model store", "`pressroom models` lists what is there")
    recorded = stored.info.labels.get(DIGEST_LABEL)
    if recorded is None:
        raise ArtifactError(f"{stored.tag} is not a Pressroom artifact", "press it with `pressroom export`")
    created = int(stored.info.creation_time.timestamp())
    try:
        return read_artifact(Path(stored.path), recorded_digest=recorded, created=created)
    except ArtifactError as fault:
        raise ArtifactError(f"{stored.tag}: {fault.message}", fault.hint) from None


def stored_versions(family: str | None = None) -> dict[str, list[str]]:
    """Names and versions (oldest first) of all artifacts in the store, read from labels only: nothing is verified."""
    found: dict[str, list[tuple[float, str]]] = {}
    for stored in bentoml.models.list():
        labels = stored.info.labels
        if DIGEST_LABEL in labels and family in (None, labels.get(FAMILY_LABEL)):
            entry = (stored.info.creation_time.timestamp(), str(stored.tag.version))
            found.setdefault(stored.tag.name, []).append(entry)
    return {name: [version for _, version in sorted(entries)] for name, entries in sorted(found.items())}


def attaches(name: str, version: str | None = None) -> bool:
    """Whether the store holds, under this name, what is served beside another artifact and never alone: an adapter."""
    try:
        stored = bentoml.models.get(f"{name}:{version}" if version else name)
    except bentoml.exceptions.BentoMLException:
        return False
    return bool(stored.info.labels.get(FAMILY_LABEL) == ADAPTER_FAMILY)


def attached_adapters(backbone: str) -> list[tuple[str, bytes]]:
    """Digest and bytes of every stored adapter of a backbone ("sha256:<hex>"), oldest first.

    Raises ArtifactError naming the adapter that is damaged.
    """
    found: list[tuple[float, str, bytes]] = []
    for stored in bentoml.models.list():
        labels = stored.info.labels
        if labels.get(FAMILY_LABEL) != ADAPTER_FAMILY or labels.get(BACKBONE_LABEL) != backbone:
            continue
        try:
            raw = (Path(stored.path) / ADAPTER_FILE).read_bytes()
        except OSError:
            raw = b""
        if digest_of(raw) != labels.get(DIGEST_LABEL):
            raise ArtifactError(f"{stored.tag}: {ADAPTER_FILE} is missing or damaged", "store the adapter again")
        found.append((stored.info.creation_time.timestamp(), digest_of(raw), raw))
    return [(digest, raw) for _, digest, raw in sorted(found)]


def _read_manifest_bytes(path: Path) -> bytes:
    try:
        return (path / MANIFEST).read_bytes()
    except OSError:
        raise ArtifactError(f"{MANIFEST} is missing", "export the checkpoint again") from None


def _check_files(path: Path, manifest: Manifest) -> None:
    present = {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file()} - STORE_FILES - {MANIFEST}
    if extra := sorted(present - manifest.files.keys()):
        raise ArtifactError(f"unexpected file {extra[0]}", "remove it, or export the checkpoint again")
    for name, entry in manifest.files.items():
        if name not in present:
            raise ArtifactError(f"{name} is missing", "export the checkpoint again")
        if sha256_file(path / name) != entry.sha256:
            raise ArtifactError(
                f"{name} is damaged: its sha256 differs from the manifest's",
                "restore the file, or export the checkpoint again",
            )
