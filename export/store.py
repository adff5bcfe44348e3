"""Writing artifacts into BentoML's model store, whole or not at all.

An artifact is put together beside the store, read back with every digest checked, and moved into place by one rename:
a reader sees it complete or not yet, and an interrupted export leaves nothing in the store. Writers take a file lock,
so that two exports of one name get two versions. Pressing what is already there returns the version that holds it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bentoml
from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.models import ModelStore

from export.artifact import (
    DIGEST_LABEL,
    FAMILY_LABEL,
    MANIFEST,
    FileEntry,
    Manifest,
    digest_of,
    read_artifact,
    sha256_file,
)
from export.errors import OptionError, StoreError

ARCHITECTURE_LABEL = "pressroom.architecture"
VERDICT_LABEL = "pressroom.verdict"
_LOCK = ".pressroom.lock"


@dataclass(frozen=True)
class Stored:
    """Where an artifact is. unchanged: the store held exactly this artifact already and nothing was written."""

    name: str
    version: str
    digest: str
    path: Path
    unchanged: bool

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}"


def store_root() -> Path:
    """The model store's directory: `models` in BENTOML_HOME. Raises StoreError if that cannot be had."""
    try:
        store: Any = BentoMLContainer.model_store.get()
    except (OSError, bentoml.exceptions.BentoMLException) as error:
        raise StoreError(f"the model store cannot be opened: {error}", "check BENTOML_HOME") from None
    return Path(store._path)


def check_tag(name: str, version: str | None) -> None:
    """Refuse (OptionError) names and versions BentoML would refuse or change, before any work is done."""
    for field, text in (("name", name), ("version", version)):
        try:
            if text is not None and (text != text.lower() or text == "latest"):
                raise ValueError(f"got {text!r}")
            bentoml.Tag("x" if text is None else text, None)
        except ValueError:
            raise OptionError(
                f"--{field} {text!r} cannot be used",
                "up to 63 lower-case letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
            ) from None


def file_entries(directory: Path) -> dict[str, FileEntry]:
    """Digest and size of every file in a directory, by name."""
    files = sorted(f for f in directory.iterdir() if f.is_file())
    return {f.name: FileEntry(sha256=sha256_file(f), bytes=f.stat().st_size) for f in files}


def store(
    manifest_for: Callable[[str], Manifest], files: Path, *, name: str, version: str | None, verdict: str
) -> Stored:
    """Store the files of a directory under `name`, as `version` or as the next whole number.

    manifest_for  the manifest for a given version, everything else being equal
    Raises StoreError if that version holds something else, or if the store cannot be written.
    """
    try:
        with locked():
            held = _held(name)
            for candidate in [version] if version else held:
                if held.get(candidate) == digest_of(manifest_for(candidate).dump()):
                    return Stored(name, candidate, held[candidate], store_root() / name / candidate, unchanged=True)
            if version in held:
                raise StoreError(
                    f"{name}:{version} exists and holds something else", "leave --version out, or choose another"
                )
            return _write(manifest_for(version or _next(held)), files, verdict)
    except OSError as error:
        raise StoreError(
            f"the model store cannot be written: {error.strerror}", "check BENTOML_HOME and its space"
        ) from None


@dataclass(frozen=True)
class Listed:
    """One artifact of the store as its labels tell it; nothing is verified."""

    name: str
    version: str
    family: str
    architecture: str
    digest: str
    bytes: int
    verdict: str


def listed() -> list[Listed]:
    """Every artifact in the store, by name, oldest version first."""
    store_root()  # says what is wrong with BENTOML_HOME, should anything be
    found = [m for m in bentoml.models.list() if DIGEST_LABEL in m.info.labels]
    found.sort(key=lambda m: (m.tag.name, m.info.creation_time))
    return [
        Listed(
            name=m.tag.name,
            version=str(m.tag.version),
            family=m.info.labels.get(FAMILY_LABEL, ""),
            architecture=m.info.labels.get(ARCHITECTURE_LABEL, ""),
            digest=m.info.labels[DIGEST_LABEL],
            bytes=sum(f.stat().st_size for f in Path(m.path).rglob("*") if f.is_file()),
            verdict=m.info.labels.get(VERDICT_LABEL, ""),
        )
        for m in found
    ]


def _held(name: str) -> dict[str, str]:
    """Digest by version of what the store holds under a name; "" for what Pressroom did not write."""
    if not (store_root() / name).is_dir():
        return {}
    return {str(m.tag.version): m.info.labels.get(DIGEST_LABEL, "") for m in bentoml.models.list(name)}


def _next(held: dict[str, str]) -> str:
    return str(max((int(v) for v in held if v.isascii() and v.isdigit()), default=0) + 1)


def _write(manifest: Manifest, files: Path, verdict: str) -> Stored:
    raw = manifest.dump()
    digest = digest_of(raw)
    labels = {DIGEST_LABEL: digest, FAMILY_LABEL: manifest.family}
    labels |= {ARCHITECTURE_LABEL: manifest.architecture, VERDICT_LABEL: verdict}
    target = store_root() / manifest.name / manifest.version
    os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # storing must not call home
    with tempfile.TemporaryDirectory(prefix=".pressing-", dir=store_root().parent) as beside:
        with bentoml.models.create(manifest.tag, labels=labels, _model_store=ModelStore(beside)) as model:
            for file in manifest.files:
                shutil.copyfile(files / file, Path(model.path) / file)
            (Path(model.path) / MANIFEST).write_bytes(raw)
        complete = Path(beside) / manifest.name / manifest.version
        read_artifact(complete, recorded_digest=digest)
        complete.chmod(0o755)  # BentoML copies the private mode of its temporary directory
        move(complete, target)
    point_latest(target)
    return Stored(manifest.name, manifest.version, digest, target, unchanged=False)


def move(complete: Path, target: Path) -> None:
    """Rename, or copy where the store is mounted from another file system; a failed copy is taken back."""
    target.parent.mkdir(exist_ok=True)
    try:
        complete.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        try:
            shutil.copytree(complete, target)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(OSError):  # other versions keep the folder
                target.parent.rmdir()
            raise


def point_latest(target: Path) -> None:
    """Make a version the one BentoML calls the latest."""
    pointer = target.parent / "latest"
    fresh = pointer.with_name(".latest.new")
    fresh.write_text(target.name)
    fresh.replace(pointer)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One writer at a time, across processes; released by the system if the holder dies."""
    with (store_root().parent / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
