"""The package's version, sent to the server as part of the User-Agent."""

__version__ = "0.1.0"
