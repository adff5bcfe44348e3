"""Times to events from health records: events under MEDS names in, survival, risk and hazards out.

Start it alone with `pressroom serve ehr` or `bentoml serve services.ehr:Ehr`.

Nothing that was sent leaves this module but in the answer: errors name places, faults are logged by type and line.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgpack
import numpy as np
import numpy.typing as npt

from export.artifact import EXAMPLE, Artifact, ArtifactError
from models.errors import InputError
from models.motor import invariance
from models.motor.answers import HazardError, Task, answer_patient, numbers
from models.motor.inputs import serving_tensors
from models.motor.record import History, Reading, read_history
from models.motor.request import Asked, ReadParquet, read_request
from models.motor.spec import EhrSpec
from models.motor.vocabulary import Ontology, Vocabulary
from services import ehr_schema as schema
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, ServedModel, batch_policy, runtime_options
from services.core.model import Task as Route
from services.core.runtime import OnnxRuntime, Runtime
from services.core.settings import Settings
from services.core.tensors import Tensors
from services.ehr_batching import TokenBatcher
from services.ehr_faults import without_content
from services.ehr_metrics import EhrMetrics
from services.ehr_tasks import Tasks, open_tasks

log = logging.getLogger("pressroom.ehr")

ROUTE = "/v1/ehr/predict"
DICTIONARY, ONTOLOGY = "dictionary.msgpack", "ontology.json"
_LONG = 512  # events; reading more is left to a thread
_MOST_NUMBERS = 2_000_000  # in one answer: some 40 MB of JSON


@dataclass(frozen=True, kw_only=True)
class Read:
    """A request ready for the network."""

    asked: Asked
    tasks: list[Task]
    histories: list[History]
    tensors: list[Tensors]


class EhrModel(ServedModel):
    """One served record model."""

    private: ClassVar[bool] = True

    def __init__(
        self, artifact: Artifact, spec: EhrSpec, reading: Reading, tasks: Tasks, graph: Runtime, settings: Settings
    ) -> None:
        super().__init__(artifact)
        self.spec = spec
        self.policy = batch_policy(settings)
        self._reading, self._tasks, self._graph = reading, tasks, graph
        self._max_patients = settings.max_request_rows
        self._refuse_plain = settings.ehr_tls_only and not settings.tls_cert
        self._positions = EhrMetrics(self.name, self.version)
        self.batcher = TokenBatcher(self._run, self.policy, self.metrics, settings.ehr_batch_tokens)

    async def answer(self, request: Json, call: Call) -> Json:
        """The JSON route; see `services.ehr_schema`."""
        if self._refuse_plain and call.protocol in ("http", "grpc"):
            raise ApiError(
                "tls_required",
                "this server takes health records over TLS only",
                hint="the operator sets PRESSROOM_TLS_CERT and PRESSROOM_TLS_KEY",
            )
        with without_content(call):
            read = await _maybe_in_thread(_is_long(request), self._read, request)
            outputs = await self.batcher.submit(read.tensors, call)
            patients = await _maybe_in_thread(len(outputs) > 16, self._write, read, outputs)
        return {"backbone": self.spec.backbone, "dictionary": self.spec.dictionary, "patients": patients}

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        return numbers(answer)

    async def warm_up(self) -> None:
        """The example's answer must be its own, and no future may change it."""
        await super().warm_up()
        example = self.artifact.read_json(EXAMPLE)["request"]
        plain, crowded = (self._read(request) for request in (example, invariance.with_future(example)))
        same = all(np.array_equal(part, crowded.tensors[0][name]) for name, part in plain.tensors[0].items())
        positions = plain.histories[0].positions
        apart = await asyncio.to_thread(invariance.graph_difference, positions, self._graph.run, aged=self.spec.aged)
        if not same or not apart <= invariance.TOLERANCE:
            raise ArtifactError(
                f"{self.artifact.tag}: what comes after the prediction time changes the answer",
                "do not use this model; export the checkpoint again and report what the export says",
            )

    def announce(self, routes: list[str]) -> None:
        super().announce(routes)
        self._positions.begin()

    def describe(self) -> Json:
        return super().describe() | self._tasks.describe()

    async def close(self) -> None:
        await self.batcher.close()

    def _read(self, request: Json) -> Read:
        """Everything that comes before the network. Raises InputError."""
        asked = read_request(request, max_patients=self._max_patients, read_parquet=_read_parquet(request))
        tasks = self._tasks.find(asked.tasks)
        _check_size(len(asked.patients), len(tasks), 2 * len(asked.horizons_days) + len(self.spec.time_bins))
        histories = [
            read_history(p.record, self._reading, p.at, strict=asked.strict, field=p.field) for p in asked.patients
        ]
        tensors = [serving_tensors(history.positions, aged=self.spec.aged) for history in histories]
        return Read(asked=asked, tasks=tasks, histories=histories, tensors=tensors)

    def _write(self, read: Read, outputs: Sequence[Tensors]) -> list[Json]:
        asked, patients = read.asked, []
        for patient, history, made in zip(asked.patients, read.histories, outputs, strict=True):
            answer = answer_patient(patient, history, made["features"][0], read.tasks, asked.horizons_days, self.spec)
            if asked.representation:
                answer["representation"] = _finite(made["representation"][0]).tolist()
            patients.append(answer)
        return patients

    def _run(self, tensors: Tensors) -> Tensors:
        """In the model's thread. A fault of the runtime is not passed on: its words may hold token ids."""
        try:
            outputs = self._graph.run(tensors)
        except Exception as fault:
            log.error("the graph failed on %d patients: %s", len(tensors["last"]), type(fault).__name__)
            raise ApiError("inference_failed", "the network failed on this request") from None
        real = int(tensors["last"].sum()) + len(tensors["last"])
        self._positions.batch(real, tensors["ages"].size)
        return outputs


class EhrFamily:
    """Loads record models."""

    name: ClassVar[str] = "ehr"
    tasks: ClassVar[Sequence[Route]] = (
        Route(
            route=ROUTE,
            request=schema.EhrRequest,
            response=schema.EhrResponse,
            example=schema.example_request(),
            files=("events_parquet",),
            lists=("tasks", "horizons_days"),
        ),
    )

    def load(self, artifact: Artifact, settings: Settings) -> EhrModel:
        _leave_no_core_dumps()
        try:
            spec = EhrSpec.from_settings(artifact.manifest.settings)
            dictionary = msgpack.unpackb(artifact.file(DICTIONARY).read_bytes(), strict_map_key=False)
            vocabulary = Vocabulary(dictionary, Ontology(artifact.read_json(ONTOLOGY)))
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(
                f"{artifact.tag}: settings are not a record model's: {fault}", "export it again"
            ) from None
        reading = Reading(
            vocabulary=vocabulary,
            birth_codes=spec.birth_codes,
            death_codes=spec.death_codes,
            reach=spec.reach,
            limit=spec.limit,
        )
        graph = OnnxRuntime(artifact.file(artifact.manifest.runtime.file), runtime_options(settings))
        return EhrModel(artifact, spec, reading, open_tasks(artifact, spec), graph, settings)


def _leave_no_core_dumps() -> None:
    """A crashed worker's memory holds records: it must not become a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _check_size(patients: int, tasks: int, of_each: int) -> None:
    if (numbers_made := patients * tasks * of_each) > _MOST_NUMBERS:
        raise InputError(
            "too_many_rows", f"the answer would hold {numbers_made} numbers, the limit is {_MOST_NUMBERS}",
            field="patients", hint="send fewer patients, tasks or horizons in one request",
        )  # fmt: skip


def _is_long(request: Json) -> bool:
    """Whether reading takes long enough to hold up others."""
    patients = request.get("patients")
    if not isinstance(patients, list):
        return True
    events = [p["events"] for p in patients if isinstance(p, dict) and isinstance(p.get("events"), list)]
    return sum(map(len, events)) > _LONG


def _read_parquet(request: Json) -> ReadParquet | None:
    if request.get("events_parquet") is None:
        return None
    from services.ehr_parquet import read_parquet  # pyarrow is loaded by those who need it

    return read_parquet


async def _maybe_in_thread(long: bool, work: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(work, *arguments) if long else work(*arguments)


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not np.isfinite(values).all():
        raise HazardError("the representation is not finite")
    return values


@pressroom_service(EhrFamily())
class Ehr(ServiceBase):
    """Times to events from verified artifacts of record models."""
