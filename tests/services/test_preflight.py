"""What is wrong with files and shares is said before any worker starts, by the setting's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.core.preflight import check_files
from services.core.settings import Settings, SettingsError


def test_nothing_named_is_nothing_wrong() -> None:
    check_files(Settings())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys_file": "/nowhere/keys.toml"}, "keys_file: keys.toml cannot be read"),
        ({"canary": "m=0.1"}, "canary: 'm=0.1'"),
        ({"shadow": "m:2=7"}, "shadow: 'm:2=7'"),
        ({"payload_log": "/nowhere/at/all"}, "payload_log"),
        ({"tls_cert": "/nowhere/cert", "tls_key": "/nowhere/key"}, "tls_cert and tls_key"),
    ],
)
def test_each_setting_is_named(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_files(Settings(**settings))
    assert words in str(refused.value)


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("no certificate")
    with pytest.raises(SettingsError, match="tls_cert and tls_key"):
        check_files(Settings(tls_cert=str(file), tls_key=str(file)))
