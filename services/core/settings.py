"""Server settings: flag > environment (PRESSROOM_...) > file (PRESSROOM_CONFIG, TOML) > default.

`load_settings` validates once at start and remembers where each value came from; `pressroom serve --print-config`
shows the table. Flags of `pressroom serve` reach the workers as environment variables.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from services.core.wanted import parse_wanted

PREFIX = "PRESSROOM_"
CONFIG_FILE = PREFIX + "CONFIG"
_PASSWORD = re.compile(r"(://[^:/@]*:).*@")


class SettingsError(ValueError):
    """A setting is unknown or invalid; the message names it, its origin and what is expected."""


class Settings(BaseModel):
    """What an operator may change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    models: str = Field(
        "",
        description="artifacts to serve: `name`, `name:version`, `name:version@sha256:...` (with that digest "
        "only) or `name:all`, comma separated; empty: all names",
    )
    canary: str = Field("", description="shares of unversioned requests, `name:version=0.1`, comma separated")
    shadow: str = Field("", description="shares of answers a version repeats, `name:version=0.1`, comma separated")
    host: str = Field("127.0.0.1", description="address to listen on (HTTP and gRPC)")
    port: int = Field(3000, ge=1, le=65535, description="HTTP port")
    grpc_port: int = Field(3001, ge=0, le=65535, description="gRPC port; 0 switches gRPC off")
    grpc_transport: Literal["http2", "grpcio"] = Field(
        "http2", description="what carries gRPC: `http2`, our own in the event loop, or `grpcio`, which takes more CPU"
    )
    workers: int = Field(1, ge=1, le=256, description="worker processes; each holds its own copy of the models")
    threads: int = Field(1, ge=1, le=256, description="threads of one forward pass")
    cuda: bool = Field(False, description="run on the first CUDA device if there is one")
    max_batch_rows: int = Field(64, ge=1, le=65536, description="rows joined into one forward pass; 1: no batching")
    max_delay_ms: float = Field(2.0, ge=0, le=10_000, description="longest wait for company, ms; 0: never wait")
    max_queue_rows: int = Field(2048, ge=1, description="rows that may wait for one model; beyond: 429")
    max_in_flight: int = Field(4096, ge=1, description="requests being handled at once, all protocols; beyond: 429")
    max_request_rows: int = Field(1024, ge=1, description="rows (series) in one request; beyond: 422")
    body_limit_bytes: int = Field(16 * 2**20, ge=1024, description="largest request body or gRPC message, bytes")
    request_timeout_ms: int = Field(30_000, ge=1, description="deadline of a request that names none, ms")
    llm_timeout_ms: int = Field(300_000, ge=1, description="the same for requests that generate text, ms")
    keys_file: str = Field("", description="TOML file of hashed API keys; empty: no keys, loopback callers only")
    insecure: bool = Field(False, description="serve callers beyond loopback without keys")
    tls_cert: str = Field("", description="PEM certificate chain; with tls_key switches TLS on, HTTP and gRPC")
    tls_key: str = Field("", description="PEM private key")
    tls_client_ca: str = Field("", description="PEM authorities; client certificates are then required (mTLS)")
    ui: bool = Field(True, description="the playground at /ui/, a page that asks this server's API")
    access_log: Literal["off", "errors", "all"] = Field(
        "errors", description="JSON access-log lines on standard output"
    )
    otlp_endpoint: str = Field("", description="OpenTelemetry collector, OTLP over HTTP (http://host:4318); empty: off")
    trace_fraction: float = Field(1.0, ge=0, le=1, description="share of requests traced that no caller has decided on")
    payload_log: str = Field("", description="file for sampled, redacted payloads; empty: never; private models: never")
    payload_log_fraction: float = Field(0.01, ge=0, le=1, description="share of requests in the payload log")
    max_failures: int = Field(10, ge=1, description="failures in a row that give a model a pause (503 circuit_open)")
    cooldown_seconds: float = Field(5.0, gt=0, description="length of that pause, s")
    llm_slots: int = Field(16, ge=1, le=1024, description="sequences a language model works on at once")
    llm_context: int = Field(
        0, ge=0, description="tokens of prompt and answer of one sequence, at most; 0: what the model allows"
    )
    llm_kv_tokens: int = Field(
        16_384, ge=0, description="tokens all sequences at work may hold together (memory); 0: slots x context"
    )
    llm_prefill_chunk: int = Field(
        64, ge=2, le=4096, description="prompt tokens worked on between two steps of the sequences that are answered"
    )
    llm_prefix_cache_tokens: int = Field(
        4096, ge=0, description="tokens of past prompts kept for prompts that begin alike (memory); 0: none"
    )
    llm_max_queue: int = Field(256, ge=0, description="sequences that may wait for one language model; beyond: 429")
    llm_backend: Literal["onnx", "torch", "vllm"] = Field(
        "onnx",
        description="what runs language models: the artifact's graph on the CPU; transformers (CPU or CUDA); or vLLM, "
        "installed beside the server",
    )
    llm_torch_folder: str = Field(
        "",
        description="Hugging Face folder `torch` and `vllm` take weights from; with {name}: a folder for every model's "
        "name",
    )
    watermark_scheme: str = Field(
        "", description="artifact (`name` or `name:version`) that marks completions and chats; empty: none are marked"
    )
    watermark_keys_file: str = Field(
        "", description="TOML file of secret watermark keys (`pressroom text key`); empty: nothing is marked or read"
    )
    watermark_policy: Literal["request", "always"] = Field(
        "request", description="`request`: answers that ask for it are marked; `always`: all, whatever a request says"
    )
    watermark_message: str = Field(
        "registry",
        description="what `always` embeds: a whole number, or `registry`: the one that stands there for model, "
        "version, artifact digest, pruning receipt and time",
    )
    watermark_registry: str = Field(
        "", description="SQLAlchemy URL of the database that keeps what messages stand for; empty: none"
    )
    watermark_bucket_hours: int = Field(
        24, ge=1, le=8784, description="how finely the registry tells the time of a text, h"
    )
    watermark_decodes_per_minute: int = Field(
        60, ge=0, description="texts a caller (API key) may have read for watermarks in a minute; 0: any number"
    )
    watermark_decode_tokens: int = Field(
        2048, ge=16, le=100_000, description="longest text read for watermarks, tokens; beyond: 422"
    )
    watermark_decode_only: bool = Field(
        False, description="watermark artifacts read texts and generate none: no language model is loaded for them"
    )
    text_detect_max_texts: int = Field(32, ge=1, le=1024, description="texts in one detection request; beyond: 422")
    text_detect_upstream_url: str = Field(
        "",
        description="OpenAI-compatible API that continues texts for black-box detection (https://host/v1); empty: none",
    )
    text_detect_upstream_model: str = Field("", description="the name of the model there")
    text_detect_upstream_api: Literal["completions", "chat"] = Field("completions", description="the route asked there")
    text_detect_upstream_key_file: str = Field("", description="file that holds the API key for it, one line")
    text_detect_upstream_timeout_ms: int = Field(30_000, ge=1, description="limit of one call there, ms")
    text_detect_upstream_retries: int = Field(2, ge=0, le=10, description="further tries of a call that failed")
    detect_max_pixels: int = Field(
        40_000_000, ge=1, description="pixels of an image file; told from its header, beyond: 422 before decoding"
    )
    detect_max_side: int = Field(1024, ge=1, description="longest side of an image inside a network, pixels")
    detect_max_regions: int = Field(1024, ge=1, description="boxes and masks in one request; beyond: 422")
    detect_max_labels: int = Field(2048, ge=1, description="labels in one request; beyond: 422")
    detect_max_images: int = Field(16, ge=1, description="images joined into one forward pass; 1: no batching")
    detect_max_queue: int = Field(64, ge=1, description="requests one image model works on or keeps waiting; then 429")
    detect_label_cache: int = Field(
        8192, ge=1, description="label embeddings kept for each model, those of other templates counted apart"
    )
    detect_decoders: int = Field(2, ge=1, le=256, description="images decoded, and maps drawn, at once")
    ehr_batch_tokens: int = Field(
        4096, ge=1, description="padded events of patients joined into one forward pass; a longer patient goes alone"
    )
    ehr_tls_only: bool = Field(False, description="refuse health records that come over plain connections")
    drain_seconds: float = Field(20.0, ge=0, description="longest wait for accepted gRPC work at shutdown, s")

    @model_validator(mode="after")
    def _check_models(self) -> Settings:
        for entry in self.model_list():
            parse_wanted(entry)
        return self

    @model_validator(mode="after")
    def _check_llm(self) -> Settings:
        if self.llm_backend != "onnx" and not self.llm_torch_folder:
            raise ValueError(
                f"llm_backend {self.llm_backend} needs llm_torch_folder: an artifact's graph cannot become a network"
            )
        return self

    @model_validator(mode="after")
    def _check_watermark(self) -> Settings:
        message = self.watermark_message
        if message != "registry" and not (message.isascii() and message.isdigit()):
            raise ValueError(f"watermark_message: got {message[:60]!r}, expected a whole number or `registry`")
        if self.watermark_policy == "always":
            needed = ["watermark_scheme", "watermark_keys_file"]
            needed += ["watermark_registry"] if message == "registry" else []
            if missing := [name for name in needed if not getattr(self, name)]:
                raise ValueError(f"watermark_policy always needs {' and '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _check_upstream(self) -> Settings:
        url = self.text_detect_upstream_url
        if url and not (url.startswith(("http://", "https://")) and self.text_detect_upstream_model):
            raise ValueError(
                "text_detect_upstream_url is an address of http:// or https:// and needs text_detect_upstream_model"
            )
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Settings:
        if bool(self.tls_cert) != bool(self.tls_key) or (self.tls_client_ca and not self.tls_cert):
            raise ValueError("tls_cert and tls_key go together; tls_client_ca needs both")
        return self

    def shown(self) -> dict[str, Any]:
        """Every value as it may be printed: passwords inside addresses are not."""
        values = self.model_dump()
        values["watermark_registry"] = _PASSWORD.sub(r"\1***@", self.watermark_registry)
        return values

    def model_list(self) -> list[str]:
        """The entries of `models`."""
        return [m.strip() for m in self.models.split(",") if m.strip()]


class LoadedSettings(BaseModel):
    """Validated settings and the origin of each value: "flag", "environment", a file name or "default"."""

    model_config = ConfigDict(frozen=True)

    values: Settings
    origins: dict[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Collect and validate. Raises SettingsError naming the setting, where it was set and what is expected."""
    env = os.environ if environment is None else environment
    merged: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, values in _sources(flags or {}, env):
        for name, value in values.items():
            if name not in Settings.model_fields:
                known = ", ".join(Settings.model_fields)
                raise SettingsError(f"{name} (from {origin}) is not a setting; known: {known}")
            merged[name], origins[name] = value, origin
    try:
        return LoadedSettings(values=Settings(**merged), origins=origins)
    except ValidationError as fault:
        first = fault.errors()[0]
        if not first["loc"]:
            raise SettingsError(first["msg"]) from None
        name = str(first["loc"][0])
        raise SettingsError(f"{name} (from {origins[name]}): got {first['input']!r}: {first['msg']}") from None


def _sources(flags: Mapping[str, Any], env: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Weakest first."""
    sources: list[tuple[str, Mapping[str, Any]]] = []
    if path := env.get(CONFIG_FILE):
        sources.append((Path(path).name, _read_file(Path(path))))
    names = {PREFIX + name.upper(): name for name in Settings.model_fields}
    sources.append(("environment", {names[key]: env[key] for key in names if key in env}))
    sources.append(("flag", {name: value for name, value in flags.items() if value is not None}))
    return sources


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError:
        raise SettingsError(f"{CONFIG_FILE}: the file {path.name} cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise SettingsError(f"{path.name} is not TOML: {fault}") from None


def as_environment(loaded: LoadedSettings) -> dict[str, str]:
    """The settings that differ from their default, as environment variables for worker processes."""
    values = loaded.values.model_dump()
    return {PREFIX + name.upper(): str(values[name]) for name, origin in loaded.origins.items() if origin != "default"}
