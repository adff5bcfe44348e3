"""PatchTST (Nie et al., ICLR 2023): a backbone of LIFT and of ARM."""

from __future__ import annotations

from models.patchtst.checkpoint import config_from_tensors, slots
from models.patchtst.config import PatchTSTConfig, parse_config
from models.patchtst.network import PatchTST

__all__ = ["PatchTST", "PatchTSTConfig", "config_from_tensors", "parse_config", "slots"]
