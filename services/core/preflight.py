"""What can be known to be wrong before a worker starts: keys that cannot be read, certificates that do not fit.

Found only in the worker, each of these would end it, again and again, while the supervisor starts it anew.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from services.core.auth import KeyStore
from services.core.settings import Settings, SettingsError
from services.core.traffic import parse_shares
from services.marking.keys import read_keys


def check_files(settings: Settings) -> None:
    """Read what the settings name. Raises SettingsError naming the setting and what is wrong with it."""
    if settings.keys_file:
        KeyStore(Path(settings.keys_file))
    if settings.watermark_keys_file:
        read_keys(Path(settings.watermark_keys_file))
    parse_shares(settings.canary, "canary")
    parse_shares(settings.shadow, "shadow")
    if settings.tls_cert:
        _check_tls(settings)
    folder = Path(settings.payload_log).absolute().parent
    if settings.payload_log and not os.access(folder, os.W_OK):
        raise SettingsError(f"payload_log: the folder {folder.name} cannot be written")


def _check_tls(settings: Settings) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "reason", None) or getattr(fault, "strerror", None) or fault
        raise SettingsError(f"tls_cert and tls_key cannot be used together: {reason}") from None
    if settings.tls_client_ca:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except OSError as fault:
            raise SettingsError(f"tls_client_ca holds no certificates: {fault.strerror}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted; give an unencrypted one")
