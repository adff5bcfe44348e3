"""The native task routes: raw data in, raw data out, the same over HTTP and inside a BYTES tensor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np
import numpy.typing as npt

from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, ServedModel
from services.core.repository import Repository
from services.core.serving import Serving


async def answer_task(serving: Serving, family: str, request: Json, call: Call) -> Json:
    """Answer one task request by the model it names.

    request  the route's JSON object; `model` (`name` or `name:version`) and `version` choose the model
    Returns the answer with the call's explanation. Raises ApiError or InputError.
    """
    model = call.model = _choose(serving.repository, family, request, call)
    body = await model.answer(request, call)
    call.finish()
    model.metrics.answered(call)

    async def again(other: ServedModel, shadow_call: Call) -> npt.NDArray[np.float64]:
        return other.numbers(await other.answer(request, shadow_call))

    serving.shadow.follow(call, lambda: model.numbers(body), again)
    if serving.journal.payloads is not None:
        serving.journal.payloads.write(call, request, body)
    return model.explained(body, call)


async def stream_task(serving: Serving, family: str, request: Json, call: Call) -> AsyncGenerator[bytes]:
    """The same, answered by server-sent events as they are made; no shadow follows, and no payload is written down.

    Raises ApiError or InputError until the first event is certain; after that, the returned body does.
    """
    model = call.model = _choose(serving.repository, family, request, call)
    return _counted(await model.stream(request, call), model, call)


async def _counted(events: AsyncGenerator[bytes], model: ServedModel, call: Call) -> AsyncGenerator[bytes]:
    async with aclosing(events):
        async for event in events:
            yield event
    model.metrics.answered(call)


def _choose(repository: Repository, family: str, request: Json, call: Call) -> ServedModel:
    name, version = request.get("model"), request.get("version")
    for field, value in (("model", name), ("version", version)):
        if value is not None and not isinstance(value, str):
            raise ApiError("invalid_request", f"{field} must be a string", field=field)
    if name is None:
        return repository.only(family, call)
    name, _, tagged = name.partition(":")
    if tagged and version and tagged != version:
        raise ApiError("invalid_request", f"two versions are named: {tagged} and {version}", field="version")
    model = repository.find(name, version or tagged or None, call)
    if model.artifact.manifest.family != family:
        served = repository.families[model.artifact.manifest.family]
        raise ApiError(
            "model_not_found",
            f"model {name!r} is not of the family {family!r}",
            field="model",
            hint=f"it is served at {', '.join(task.route for task in served.tasks)}",
        )
    return model
