"""A loaded model as the front ends see it, and the family that knows how to load one.

Every front end (task route, Open Inference Protocol over REST and gRPC) shares one `ServedModel` and thereby one
queue of work. A family brings its tasks, `load`, and a subclass: of `TensorModel` with `prepare`, `complete` (tensors)
and `answer` (raw data) where requests share forward passes, else of `ServedModel` with `answer` and its own queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from export.artifact import EXAMPLE, PARITY, Artifact, ArtifactError, TensorSpec
from services.core.batcher import Batcher, BatchPolicy
from services.core.call import Call
from services.core.errors import ApiError
from services.core.http.exchange import Envelope
from services.core.metrics import MODEL_LOADED, MODEL_READY, PROTOCOLS, ModelMetrics
from services.core.runtime import Runtime, RuntimeOptions
from services.core.settings import Settings
from services.core.tensors import Tensors

Json = dict[str, Any]
_TOLD = {"paper", "official", "source", "hyper_parameters", "request", "pipeline", "runtime", "files"}


class ServedModel(ABC):
    """One artifact, ready to answer its family's tasks.

    private  its requests hold personal data: they are never written anywhere
    policy   how requests share forward passes; None: the model has its own way
    native_tensors  fields of the native request that may come as tensors beside it
    """

    private: ClassVar[bool] = False
    policy: BatchPolicy | None = None
    native_tensors: ClassVar[tuple[str, ...]] = ()

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.name = artifact.manifest.name
        self.version = artifact.manifest.version
        self.digest = artifact.digest
        self.certificate: Json = artifact.read_json(PARITY)
        self.metrics = ModelMetrics(self.name, self.version)
        manifest = artifact.manifest
        self._ready = MODEL_READY.labels(self.name, self.version, manifest.family, manifest.architecture, self.digest)

    @property
    def inputs(self) -> list[TensorSpec]:
        """Input tensors as the manifest signs them."""
        return self.artifact.manifest.signature.inputs

    @property
    def accepts(self) -> list[TensorSpec]:
        """Input tensors that pass the shape check; a family may widen the signature, e.g. by longer histories."""
        return self.inputs

    @property
    def outputs(self) -> list[TensorSpec]:
        return self.artifact.manifest.signature.outputs

    @abstractmethod
    async def answer(self, request: Json, call: Call) -> Json:
        """The native task: raw data in, raw data out; `explained` adds the explanation of the call."""

    def explained(self, answer: Json, call: Call) -> Json:
        """The answer as it leaves, with the explanation of the finished call."""
        return {**call.explanation(), **answer}

    async def stream(self, request: Json, call: Call) -> AsyncGenerator[bytes]:
        """The native task as server-sent events, for tasks that say so.

        Returns once the first event is certain; what fails later is raised by the events, which also finish the call.
        """
        raise ApiError("invalid_request", "answers of this model are not streamed", field="stream")

    @abstractmethod
    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """All numbers of a task answer, flat and in a fixed order: what two answers are compared by."""

    async def warm_up(self) -> None:
        """Run the artifact's example through the whole pipeline. Raises ArtifactError if the answer is not its own."""
        example = self.artifact.read_json(EXAMPLE)
        answer = await self.answer(example["request"], Call("warm-up", "none", "warm-up"))
        got, expected = self.numbers(answer), self.numbers(example["response"])
        if got.shape != expected.shape or not np.allclose(got, expected, **example["tolerance"]):
            raise self.not_reproduced()

    def not_reproduced(self) -> ArtifactError:
        """What `warm_up` raises."""
        return ArtifactError(
            f"{self.artifact.tag}: {EXAMPLE} is not reproduced: the served pipeline answers otherwise",
            "`pressroom verify` shows where; export the checkpoint again on this machine",
        )

    def announce(self, routes: list[str]) -> None:
        """Create the model's metric series: called once it is ready to serve."""
        self._ready.set(1)
        MODEL_LOADED.labels(self.name, self.version).set_to_current_time()
        self.metrics.queue(0)
        self.metrics.circuit(False)
        for route in routes:
            for protocol in PROTOCOLS:
                self.metrics.expect(route, protocol)

    def retire(self) -> None:
        """No longer served: requests that hold the model finish, then it is freed with its thread and memory."""
        self._ready.set(0)
        MODEL_LOADED.labels(self.name, self.version).set(0)
        self.metrics.retire()

    @abstractmethod
    async def close(self) -> None:
        """Finish accepted work and stop."""

    def details(self) -> Json:
        """What GET /v1/models/{model} tells beyond the list: provenance, the whole certificate, a request to try."""
        example = self.artifact.read_json(EXAMPLE)
        return {
            "manifest": self.artifact.manifest.model_dump(include=_TOLD),
            "parity": self.certificate,
            "example": {part: example[part] for part in ("request", "response")},
        }

    def describe(self) -> Json:
        """The entry of GET /v1/models."""
        manifest = self.artifact.manifest
        certificate = self.certificate
        return {
            "id": self.name,
            "object": "model",
            "created": self.artifact.created,
            "owned_by": "pressroom",
            "version": self.version,
            "family": manifest.family,
            "architecture": manifest.architecture,
            "digest": self.digest,
            "certificate": {
                "verdict": certificate["verdict"],
                "max_abs": certificate["max_abs"],
                "tolerance": certificate["tolerance"],
                "cases": len(certificate["cases"]),
            },
            "signature": manifest.signature.model_dump(),
            "settings": {k: v for k, v in manifest.settings.items() if k != "scaler"},
            "metrics": [m.model_dump() for m in manifest.metrics],
        }


class TensorModel(ServedModel):
    """A model of tensors: pipeline, runtime and batcher of one artifact."""

    policy: BatchPolicy

    def __init__(self, artifact: Artifact, runtime: Runtime, policy: BatchPolicy) -> None:
        super().__init__(artifact)
        self.policy = policy
        self.passed: set[Any] = set()  # names, data types and shapes of tensors that need no second check
        self.batcher = Batcher(runtime.run, policy, self.metrics)

    async def infer(self, tensors: Tensors, call: Call) -> tuple[Tensors, Json]:
        """Checked tensors in raw units -> output tensors in raw units, and what the answer should say about itself.

        Raises InputError or ApiError.
        """
        (outputs,) = await self.batcher.submit([self.prepare(tensors)], call)
        return self.complete(tensors, outputs, call)

    def prepare(self, tensors: Tensors) -> Tensors:
        """Checked tensors in raw units -> what goes into a batch, as many rows. Raises InputError or ApiError."""
        return tensors

    def complete(self, tensors: Tensors, outputs: Tensors, call: Call) -> tuple[Tensors, Json]:
        """A request's tensors and its rows of the batch's outputs -> what `infer` returns. Raises ApiError."""
        return outputs, {}

    async def close(self) -> None:
        await self.batcher.close()


@dataclass(frozen=True, kw_only=True)
class Task:
    """A native route of a family, and what documents it; the pipeline itself validates.

    example   a request, shown in the documentation
    streamed  a request with `stream: true` is answered by server-sent events
    files     fields that may come as files of a multipart form; lists: fields of such a form that are lists
    envelope  the document of an error on this route
    """

    route: str  # "/v1/forecast"
    request: type[BaseModel]
    response: type[BaseModel]
    example: Json
    streamed: bool = False
    files: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    envelope: Envelope = ApiError.envelope

    @property
    def name(self) -> str:
        """The route without version and slashes: `forecast`, `chat_completions`."""
        return self.route.removeprefix("/v1/").replace("/", "_")


class Family(Protocol):
    """One family of models: the tasks it answers and how to load an artifact."""

    name: ClassVar[str]  # "forecast"
    tasks: ClassVar[Sequence[Task]]

    def load(self, artifact: Artifact, settings: Settings) -> ServedModel:
        """Raises ArtifactError if the artifact's settings are not this family's."""
        ...


def batch_policy(settings: Settings) -> BatchPolicy:
    """The operator's batching settings as a policy."""
    return BatchPolicy(
        max_rows=settings.max_batch_rows,
        max_delay_ms=settings.max_delay_ms,
        max_queue_rows=settings.max_queue_rows,
        max_failures=settings.max_failures,
        cooldown_s=settings.cooldown_seconds,
    )


def runtime_options(settings: Settings) -> RuntimeOptions:
    """The operator's thread and device settings."""
    return RuntimeOptions(threads=settings.threads, cuda=settings.cuda)
