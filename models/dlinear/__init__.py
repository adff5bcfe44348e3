"""DLinear (Zeng et al., AAAI 2023): a backbone of LIFT and of ARM."""

from __future__ import annotations

from models.dlinear.checkpoint import config_from_tensors, slots
from models.dlinear.config import DLinearConfig, parse_config
from models.dlinear.network import DLinear

__all__ = ["DLinear", "DLinearConfig", "config_from_tensors", "parse_config", "slots"]
