"""The version the server reports; the package's own, without importing the front desk."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("pressroom")
