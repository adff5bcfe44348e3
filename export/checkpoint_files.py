"""The bytes of a checkpoint: which format they are, and a loader that never executes them.

A `.pth` file is a pickle and a pickle is a program. It is only ever opened with `torch.load(weights_only=True)`,
which knows tensors and plain containers; anything else in it is refused with the name of the function it wanted to
call. A pickle that `torch.save` did not write is not loaded at all, only disassembled to tell what it would have done.
"""

from __future__ import annotations

import codecs
import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from export.errors import CheckpointFileError

Format = Literal["pth", "safetensors"]

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
LONGEST_HEADER = 100_000_000  # bytes; the limit the safetensors format sets
OLD_TORCH = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # the magic number older versions of torch.save write first
FETCH = "copy the file again from the training machine and compare the sizes"
RESAVE_PLAIN = (
    "a state dict needs no code: load it where you trust it and save torch.save(model.state_dict(), 'checkpoint.pth')"
)
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)|(?:to call|type|class) ([\w]+(?:\.\w+)+)")


def sniff(path: Path) -> Format:
    """Tell the format from the first bytes. Raises CheckpointFileError for whatever is not a checkpoint."""
    head = _head(path)
    if (
        head[8:9] == b"{" and int.from_bytes(head[:8], "little") < LONGEST_HEADER
    ):  # may begin with any byte: asked first
        return "safetensors"
    if head.startswith(ZIP):
        _check_archive(path)
        return "pth"
    if head.startswith(OLD_TORCH):
        return "pth"
    if head.startswith(PICKLE):
        raise _refuse_plain_pickle(path)
    raise CheckpointFileError(
        f"{path.name} is {_describe(head)}, expected checkpoint.pth or .safetensors", _remedy(head)
    )


def load_pth(path: Path) -> Any:
    """The object in a torch.save file: tensors and plain containers only, on the CPU. Raises CheckpointFileError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the unpickler's advice about protocols is not for our caller
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises many kinds for damaged bytes; all mean "not usable"
        raise _refusal(path, str(error)) from None


def load_safetensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file. Raises CheckpointFileError when header and bytes do not fit."""
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointFileError(f"{path.name} is a damaged safetensors file: {error}", FETCH) from None


def _head(path: Path) -> bytes:
    if path.is_dir():
        raise CheckpointFileError(
            f"{path.name} is a directory, expected a file", f"name the file inside, e.g. {path.name}/checkpoint.pth"
        )
    try:
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise CheckpointFileError(f"{path.name} cannot be read: {error.strerror}", "check the path") from None
    if not head:
        raise CheckpointFileError(f"{path.name} is empty", FETCH)
    return head


def _check_archive(path: Path) -> None:
    """torch.save writes a zip with `data.pkl`; TorchScript adds code; a file cut off lacks the directory at its end."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except zipfile.BadZipFile:
        raise CheckpointFileError(f"{path.name} is cut off: the end of the archive is missing", FETCH) from None
    if "constants.pkl" in names:
        raise CheckpointFileError(f"{path.name} is a TorchScript program, expected a state dict", RESAVE_PLAIN)
    if "data.pkl" not in names:
        raise CheckpointFileError(
            f"{path.name} is a zip archive without a state dict", "unpack it, or name another file"
        )


def _refusal(path: Path, reason: str) -> CheckpointFileError:
    if found := _GLOBAL.search(reason):
        return _code_inside(path, found[1] or found[2])
    first = (reason.strip().splitlines() or ["unreadable"])[0][:160].replace(str(path), path.name)
    return CheckpointFileError(f"{path.name} is damaged or not a torch checkpoint: {first}", FETCH)


def _code_inside(path: Path, culprit: str) -> CheckpointFileError:
    message = f"{path.name} is a pickle with code in it: it asks for {culprit}; nothing was executed"
    return CheckpointFileError(message, RESAVE_PLAIN)


def _refuse_plain_pickle(path: Path) -> CheckpointFileError:
    """Disassemble, without running, a pickle that torch.save did not write; name the first thing it would import."""
    strings: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(path.read_bytes()):
            if code.name == "GLOBAL":
                return _code_inside(path, str(argument).replace(" ", "."))
            if code.name == "STACK_GLOBAL":
                return _code_inside(path, ".".join(strings[-2:]))
            if isinstance(argument, str):
                strings.append(argument)
    except ValueError:
        return CheckpointFileError(f"{path.name} is a damaged pickle, expected a torch checkpoint", FETCH)
    return CheckpointFileError(f"{path.name} is a plain pickle, not written by torch.save", RESAVE_PLAIN)


def _describe(head: bytes) -> str:
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself"
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # incremental: the 256th byte may cut a character
    except UnicodeDecodeError:
        text = "\0"
    return f"of an unknown format (first bytes {head[:8].hex(' ')})" if "\0" in text else "a text file"


def _remedy(head: bytes) -> str:
    if head.startswith(b"version https://git-lfs"):
        return "fetch it with `git lfs pull`"
    return "name the file torch.save wrote, or a .safetensors file"
