"""What the calls answer: plain frozen values. Fields the server or the transport does not know are None or empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError
from ._forecast_types import Filled, Interval

if TYPE_CHECKING:
    import pandas as pd

    from ._frames import Template


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Where the server's time went, in milliseconds; the stages add up to the total.

    queue_ms        waiting for the batch
    preprocess_ms   raw data to tensors
    inference_ms    the network, for the whole batch
    postprocess_ms  tensors to raw data
    total_ms        from the request read to the answer ready
    """

    queue_ms: float | None = None
    preprocess_ms: float | None = None
    inference_ms: float | None = None
    postprocess_ms: float | None = None
    total_ms: float | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Timings:
        """From a mapping that holds these names among others."""
        return cls(**{name: float(raw[name]) for name in cls.__dataclass_fields__ if raw.get(name) is not None})


@dataclass(frozen=True)
class WarningNote:
    """Something the server did that you may want to know, for example code "history_truncated"."""

    code: str
    message: str


@dataclass(frozen=True)
class HistoryUse:
    """Time steps the server received and those it used, the last ones."""

    received: int
    used: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """The forecast of one series.

    id          as sent, or None
    values      column -> float64 [H], raw units, columns in the order sent
    timestamps  datetime64[us] [H], or None if none were sent: UTC if the history had a zone or epoch seconds, else the
                history's own wall clock
    zone        of the history, None: wall clock
    history     time steps received and used
    warnings    what the server wants you to know
    intervals   one for each level asked for, ascending
    filled      what was made up in the history, where `missing` named a policy
    """

    id: str | None
    values: dict[str, np.ndarray]
    timestamps: np.ndarray | None
    zone: tzinfo | None = None
    history: HistoryUse | None = None
    warnings: tuple[WarningNote, ...] = ()
    intervals: tuple[Interval, ...] = ()
    filled: Filled | None = None
    _template: Template | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Time steps forecast, H."""
        return len(next(iter(self.values.values()), ()))

    def to_frame(self) -> pd.DataFrame:
        """A frame like the one sent: same columns in the same order, DatetimeIndex in the same zone, float64 [H, C].

        Without timestamps the index counts from 0. Needs pandas.
        """
        from ._frames import to_frame

        return to_frame(self, self._template)

    def interval(self, level: int) -> Interval:
        """The interval of a level; KeyError if it was not asked for."""
        for found in self.intervals:
            if found.level == level:
                return found
        raise KeyError(f"no interval of level {level}; this forecast has {[one.level for one in self.intervals]}")


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastResult:
    """The answer to one `forecast` call: one Forecast per series sent, in that order.

    Iterate it, take `len`, index by position or by series id; `single`, `frame` and `to_frame()` are for the usual
    case of one series.

    model, version, digest  what answered; digest "sha256:..." names the exact artifact
    request_id              the id both sides log for this call
    timings                 the server's stages, milliseconds
    batch_rows              rows that went through the network together with these
    """

    forecasts: tuple[Forecast, ...]
    model: str | None
    version: str | None
    digest: str | None
    request_id: str
    timings: Timings
    batch_rows: int | None

    def __iter__(self) -> Iterator[Forecast]:
        return iter(self.forecasts)

    def __len__(self) -> int:
        return len(self.forecasts)

    def __getitem__(self, key: int | str) -> Forecast:
        """By position (int) or series id (str); IndexError or KeyError if there is none."""
        if isinstance(key, int):
            return self.forecasts[key]
        for forecast in self.forecasts:
            if forecast.id == key:
                return forecast
        raise KeyError(f"no series {key!r}; this answer has {[forecast.id for forecast in self.forecasts]}")

    @property
    def single(self) -> Forecast:
        """The only forecast; UsageError if the call sent several series."""
        if len(self.forecasts) != 1:
            hint = "index the result by position or id, or use .frames"
            raise UsageError(f"the answer holds {len(self.forecasts)} series, expected one", hint=hint)
        return self.forecasts[0]

    @property
    def warnings(self) -> tuple[WarningNote, ...]:
        """Every series' warnings, in order."""
        return tuple(note for forecast in self.forecasts for note in forecast.warnings)

    def to_frame(self) -> pd.DataFrame:
        """The only series as a frame, see Forecast.to_frame; UsageError if the call sent several."""
        return self.single.to_frame()

    @property
    def frame(self) -> pd.DataFrame:
        """`to_frame()`."""
        return self.to_frame()

    @property
    def frames(self) -> dict[str | int, pd.DataFrame]:
        """Every series as a frame, keyed by its id, or by its position where it has none."""
        return {position if f.id is None else f.id: f.to_frame() for position, f in enumerate(self.forecasts)}


@dataclass(frozen=True, kw_only=True, eq=False)
class InferResult:
    """The answer to one `infer` call.

    outputs     name -> array, as the model shaped it; BYTES are object arrays of bytes, BF16 arrives as float32
    parameters  whatever else the server said: scalars by name
    """

    outputs: dict[str, np.ndarray]
    model: str
    version: str | None
    digest: str | None
    request_id: str
    timings: Timings
    batch_rows: int | None
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Certificate:
    """How closely the artifact reproduces the paper's code.

    verdict     "ok", or what failed
    max_abs     largest absolute difference over all cases
    atol, rtol  tolerance it was held to
    cases       number of inputs compared
    """

    verdict: str | None = None
    max_abs: float | None = None
    atol: float | None = None
    rtol: float | None = None
    cases: int | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Certificate:
        """From the wire's {"verdict", "max_abs", "tolerance": {"atol", "rtol"}, "cases"}."""
        tolerance = raw.get("tolerance") or {}
        return cls(
            raw.get("verdict"), raw.get("max_abs"), tolerance.get("atol"), tolerance.get("rtol"), raw.get("cases")
        )


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One served model. Over gRPC only name, version(s), state and reason are known.

    created      when its artifact was made, UTC
    certificate  summary of its parity certificate
    signature    inputs and outputs: names, dtypes, shapes, units, as the artifact states them
    settings     of its task, for a forecaster: look_back, horizon, frequency, columns
    receipt      of a pruned language model: what pruning did to quality, size and speed
    state        "READY", "LOADING", "UNAVAILABLE" (gRPC)
    reason       why it is in that state (gRPC)
    context_length    of a language model: tokens of prompt and answer together, at most
    """

    name: str
    version: str | None = None
    versions: tuple[str, ...] = ()
    family: str | None = None
    architecture: str | None = None
    digest: str | None = None
    created: datetime | None = None
    owned_by: str | None = None
    certificate: Certificate | None = None
    signature: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    context_length: int | None = None
    receipt: Mapping[str, Any] | None = None
    state: str | None = None
    reason: str | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> ModelInfo:
        """From one entry of `GET /v1/models`; names this version does not know are passed over."""
        created, certificate = raw.get("created"), raw.get("certificate")
        plain = ("version", "family", "architecture", "digest", "owned_by", "signature", "settings")
        text = ("context_length", "receipt")
        return cls(
            name=raw["id"],
            versions=tuple(raw.get("versions") or ()),
            created=None if created is None else datetime.fromtimestamp(created, UTC),
            certificate=Certificate.parse(certificate) if certificate else None,
            **{name: raw.get(name) for name in (*plain, *text)},
        )


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a model: datatype as "FP32", shape with -1 for any length."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """A model's tensors in the Open Inference Protocol's terms, for `infer`."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """The server's name, version and protocol extensions."""

    name: str
    version: str
    extensions: tuple[str, ...]
