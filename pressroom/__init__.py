"""The front desk: one small module per command-line verb over models, export, services and the client."""

__version__ = "0.1.0"
