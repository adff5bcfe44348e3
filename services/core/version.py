"""The version of Pressroom: the package's metadata, the command line and the server's answers all read it here."""

from __future__ import annotations

VERSION = "0.1.0"
