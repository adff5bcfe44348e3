"""What a clone presses by itself is pressed once: a stamp beside the store remembers what each artifact was made of.

A recipe is a digest of everything an export depends on: input files, sources of exporter and networks, library
versions. While it is unchanged and the artifact still opens with every digest right, nothing is pressed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from export.artifact import ArtifactError, open_artifact
from export.store import Stored, store_root


def recipe(files: Iterable[Path], facts: Mapping[str, Any]) -> str:
    """Digest of the files' names and bytes, and of facts that JSON can write."""
    state = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in files:
        with path.open("rb") as file:
            state.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return state.hexdigest()


def once(name: str, made_of: str, press: Callable[[], Stored]) -> Stored:
    """The artifact pressed to this recipe: by an earlier call, or by `press` now."""
    if found := up_to_date(name, made_of):
        return found
    stored = press()
    remember(stored, made_of)
    return stored


def up_to_date(name: str, made_of: str) -> Stored | None:
    """The artifact an earlier call pressed to this recipe, if it is still whole."""
    try:
        stamp = json.loads(_stamp(name).read_bytes())
        if stamp["recipe"] != made_of:
            return None
        artifact = open_artifact(name, stamp["version"])
    except (OSError, ValueError, KeyError, ArtifactError):
        return None
    if artifact.digest != stamp["digest"]:
        return None
    return Stored(name, artifact.manifest.version, artifact.digest, artifact.path, unchanged=True)


def remember(stored: Stored, made_of: str) -> None:
    """Write the stamp of an artifact that was just pressed."""
    stamp = _stamp(stored.name)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(json.dumps({"recipe": made_of, "version": stored.version, "digest": stored.digest}) + "\n")


def _stamp(name: str) -> Path:
    return store_root().parent / "pressroom" / f"bundled-{name}.json"
