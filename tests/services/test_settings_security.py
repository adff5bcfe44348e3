"""Settings that guard the door: refused when they contradict each other, and without secrets to print."""

from __future__ import annotations

import pytest

from services.core.settings import Settings, SettingsError, as_environment, load_settings


def test_by_default_only_this_machine_is_answered_and_nothing_is_recorded() -> None:
    safe = load_settings(environment={}).values
    assert (safe.host, safe.insecure, safe.keys_file) == ("127.0.0.1", False, "")
    assert (safe.otlp_endpoint, safe.payload_log, safe.access_log) == ("", "", "errors")


@pytest.mark.parametrize(
    "tls", [{"tls_cert": "c"}, {"tls_key": "k"}, {"tls_client_ca": "a"}, {"tls_cert": "c", "tls_client_ca": "a"}]
)
def test_half_of_tls_is_refused(tls: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="tls_cert and tls_key go together"):
        load_settings(tls, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body_limit_bytes", 0),
        ("max_queue_rows", 0),
        ("max_in_flight", 0),
        ("max_request_rows", -1),
        ("request_timeout_ms", 0),
        ("payload_log_fraction", 2),
        ("trace_fraction", -0.1),
        ("max_failures", 0),
        ("cooldown_seconds", 0),
        ("access_log", "everything"),
        ("insecure", "perhaps"),
    ],
)
def test_no_limit_can_be_switched_off_by_an_odd_value(name: str, value) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({name: value}, {})
    assert str(refused.value).startswith(f"{name} (from flag)")


def test_no_setting_holds_a_secret() -> None:
    """Keys and certificates are named by file, so that `--print-config` and the environment hold none."""
    assert not [name for name in Settings.model_fields if "secret" in name or "password" in name or name == "keys"]


def test_workers_inherit_exactly_what_was_set() -> None:
    loaded = load_settings({"keys_file": "keys.toml"}, {"PRESSROOM_INSECURE": "true"})
    assert as_environment(loaded) == {"PRESSROOM_KEYS_FILE": "keys.toml", "PRESSROOM_INSECURE": "True"}
    assert load_settings({}, as_environment(loaded)).values == loaded.values
