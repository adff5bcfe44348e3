"""One inference without a task: the batcher calls back, in the event loop, when the outcome is there.

A task, its coroutines and a future cost as much as the rest of a request. Where a request is of a form that has passed
every check before, nothing in it waits but the batch, so it can do without them. Both wires subclass this.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from weakref import ref

from services.core.call import Call
from services.core.errors import ApiError
from services.core.gate import Admission
from services.core.job import Job
from services.core.metrics import InFlight
from services.core.model import ServedModel, TensorModel
from services.core.oip.inference import Parameters, conclude, kind_of, outputs_of
from services.core.oip.layout import InferRequest, Layout
from services.core.serving import Serving
from services.core.tensors import Tensors

log = logging.getLogger("pressroom.direct")


@dataclass(slots=True)  # made for every gRPC call: treated as frozen
class Caller:
    """What the gate wants to know: the key that came with a request, and the address it came to."""

    secret: str | None
    address: str


class Form:
    """A form of request that came before: whom it asks, where its tensors lie, and the model that last took it."""

    __slots__ = ("_taken", "layout", "name", "version")

    def __init__(self, name: str, version: str | None, layout: Layout) -> None:
        self.name = name
        self.version = version
        self.layout = layout
        self._taken: Callable[[], ServedModel | None] = lambda: None  # weak: a retired model has to be freed

    def suits(self, model: ServedModel, request: InferRequest) -> bool:
        """Whether requests of this form were checked before and are one job of a batch."""
        if self._taken() is model:
            return True
        if not isinstance(model, TensorModel) or kind_of(request.tensors) not in model.passed:
            return False
        if request.outputs is not None and not request.outputs.keys() <= set(outputs_of(model)):
            return False
        if len(next(iter(request.tensors.values()))) > model.policy.max_rows:
            return False
        self._taken = ref(model)
        return True


class Direct(ABC):
    """A request on its way. It is the waiter of its own job (`services.core.job.Waiter`)."""

    __slots__ = ("_admission", "_in_flight", "_job", "_model", "_over", "_request", "_serving", "call")

    def __init__(self, serving: Serving, in_flight: InFlight, request: InferRequest, call: Call) -> None:
        self.call = call
        self._serving = serving
        self._in_flight = in_flight
        self._request = request
        self._job: Job | None = None
        self._over = False

    def admit(self, form: Form, caller: Caller) -> bool:
        """Whether the request suits its model and may come in; if not, nothing has happened yet."""
        serving, call = self._serving, self.call
        try:
            model = serving.repository.find(form.name, form.version, call)
            if not form.suits(model, self._request):
                return False
            serving.gate.enter()  # before a request is counted against its key: the ordinary way counts it again
        except ApiError:
            return False
        try:
            self._admission: Admission = serving.gate.admit("infer", caller.secret, caller.address)
        except ApiError:
            serving.gate.leave()
            return False  # it is refused there again, in full
        assert isinstance(model, TensorModel)
        call.model = self._model = model
        call.key_id = self._admission.key_id
        self._in_flight.count += 1
        return True

    def begin(self) -> None:
        """Queue the request. Whatever comes of it, it is answered or refused once, unless the caller leaves."""
        model = self._model
        try:
            prepared = model.prepare(self._request.tensors)
            self._job = model.batcher.put(prepared, len(next(iter(prepared.values()))), self, self.call)
        except Exception as fault:
            self.set_exception(fault)

    def left(self) -> None:
        """The caller is gone."""
        if not self._over:
            self._close("cancelled")

    @abstractmethod
    def _answer(self, outputs: Tensors, parameters: Parameters) -> None:
        """Send the answer."""

    @abstractmethod
    def _refuse(self, error: ApiError) -> None:
        """Send the refusal."""

    def done(self) -> bool:
        return self._over

    def set_result(self, outputs: Tensors, /) -> None:
        job, request, call = self._job, self._request, self.call
        assert job is not None
        call.ran(job.submitted, job.began, job.ended, job.batch_rows)
        try:
            answer = conclude(self._serving, self._model, request.tensors, request.outputs, outputs, call)
        except Exception as fault:
            self.set_exception(fault)
            return
        self._close("ok")
        self._answer(*answer)

    def set_exception(self, fault: BaseException, /) -> None:
        error = ApiError.of(fault)
        if error.code == "internal":
            log.error("request %s failed", self.call.request_id, exc_info=fault)
        self._close(error.code)
        self._refuse(error)

    def _close(self, code: str) -> None:
        """Nobody waits any more: give the place back, count a refusal (answers are counted), write the request down."""
        call = self.call
        self._over = True
        if self._job is not None:
            self._model.batcher.withdraw(self._job)  # late or left in the queue
            self._job = None  # they hold each other, and the collector comes by seldom
        self._in_flight.count -= 1
        self._serving.gate.leave()
        if not call.batch_rows:
            call.finish()
        if code != "ok":
            self._model.metrics.refused(call, code)
        self._serving.journal.finished(call, code, call.key_id)
