"""One inference, whichever protocol it came by: find the model, check the tensors, run, explain."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from export.artifact import TensorSpec
from services.core.call import Call
from services.core.errors import ApiError
from services.core.http.content import read_json_object
from services.core.model import ServedModel, TensorModel
from services.core.oip.documents import wire_shape
from services.core.serving import Serving
from services.core.task import answer_task
from services.core.tensors import Tensors, dtype_name

MAX_PASSED = 256  # kinds of requests remembered for a model

Parameters = dict[str, bool | int | float | str]


async def infer(
    serving: Serving, model: ServedModel, tensors: Tensors, wanted: Collection[str] | None, call: Call
) -> tuple[Tensors, Parameters]:
    """Output tensors of one request, and its explanation as protocol parameters.

    wanted  names of the outputs to return; None: all
    Raises ApiError or InputError.
    """
    call.model = model
    if not isinstance(model, TensorModel) or _is_native(tensors, model):
        outputs = await _native(serving, model, tensors, call)
        return _select(outputs, wanted), {"request_id": call.request_id}
    _check_once(tensors, model, serving.settings.max_request_rows)
    if wanted is not None:
        _check_wanted(wanted, outputs_of(model))
    (outputs,) = await model.batcher.submit([model.prepare(tensors)], call)
    return conclude(serving, model, tensors, wanted, outputs, call)


def conclude(
    serving: Serving,
    model: TensorModel,
    tensors: Tensors,
    wanted: Collection[str] | None,
    outputs: Tensors,
    call: Call,
) -> tuple[Tensors, Parameters]:
    """What `infer` returns, from a request's rows of a batch: finished, counted, followed. Raises ApiError."""
    answer, notes = model.complete(tensors, outputs, call)
    call.finish()
    model.metrics.answered(call)

    async def again(other: ServedModel, shadow_call: Call) -> npt.NDArray[np.float64]:
        assert isinstance(other, TensorModel)  # a version of the same model
        return _flat((await other.infer(tensors, shadow_call))[0])

    serving.shadow.follow(call, lambda: _flat(answer), again)
    explanation = _explanation(call)
    explanation |= notes
    return _select(answer, wanted), explanation


def outputs_of(model: ServedModel) -> list[str]:
    """Names of a model's outputs."""
    return [spec.name for spec in model.outputs]


def kind_of(tensors: Tensors) -> tuple[Any, ...]:
    """Names, data types and shapes: all that the check of a request looks at."""
    return tuple([(name, tensor.dtype.char, tensor.shape) for name, tensor in tensors.items()])


def _is_native(tensors: Tensors, model: TensorModel) -> bool:
    return tensors.keys() == {"request"} and all(spec.name != "request" for spec in model.inputs)


def _flat(outputs: Tensors) -> npt.NDArray[np.float64]:
    return np.concatenate([np.asarray(t, dtype=np.float64).ravel() for t in outputs.values()])


async def _native(serving: Serving, model: ServedModel, tensors: Tensors, call: Call) -> Tensors:
    """The task route's JSON inside one BYTES element, so that every client speaks one protocol to every model."""
    tensor = tensors.get("request")
    if tensor is None or tensor.dtype.kind != "O" or tensor.size != 1:
        raise ApiError("tensor_shape", "input 'request' must be one BYTES element holding JSON", field="request")
    request = read_json_object(tensor.ravel()[0])
    check_names(tensors, ("request", *model.native_tensors))
    request |= {name: tensors[name] for name in model.native_tensors if name in tensors}
    request |= {"model": model.name, "version": model.version}
    answer = await answer_task(serving, model.artifact.manifest.family, request, call)
    response = np.empty(1, dtype=object)
    response[0] = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    return {"response": response}


def _check_once(tensors: Tensors, model: TensorModel, max_rows: int) -> None:
    """`check_tensors`, unless the same names, data types and shapes have passed before."""
    kind = kind_of(tensors)
    if kind in model.passed:
        return
    check_tensors(tensors, model.accepts, max_rows)
    if len(model.passed) < MAX_PASSED:
        model.passed.add(kind)


def check_names(sent: Iterable[str], known: Iterable[str]) -> None:
    """Raises ApiError naming an input the model does not have."""
    known = tuple(known)
    if unexpected := [name for name in sent if name not in known]:
        hint = f"the model's inputs: {', '.join(known)}"
        raise ApiError("tensor_unexpected", f"the model has no input {unexpected[0][:60]!r}", field="inputs", hint=hint)


def check_tensors(tensors: Tensors, specs: list[TensorSpec], max_rows: int) -> None:
    """Names, data types, shapes, and one common number of rows. Raises ApiError naming the input."""
    known = {spec.name: spec for spec in specs}
    check_names(tensors, known)
    if missing := [s.name for s in specs if not s.optional and s.name not in tensors]:
        raise ApiError("tensor_missing", f"input {missing[0]!r} was not sent", field=missing[0])
    for name, tensor in tensors.items():
        spec = known[name]
        if dtype_name(tensor) != spec.dtype:
            raise ApiError(
                "tensor_dtype", f"input {name!r} is {dtype_name(tensor)}, the model takes {spec.dtype}", field=name
            )
        if not _fits(tensor.shape, spec.shape):
            got, expected = list(tensor.shape), wire_shape(spec)
            raise ApiError(
                "tensor_shape", f"input {name!r} has shape {got}, the model takes {expected}", field=name,
                hint="-1 stands for any length",
            )  # fmt: skip
    _check_rows({name: len(tensor) for name, tensor in tensors.items()}, max_rows)


def _check_rows(rows: dict[str, int], max_rows: int) -> None:
    first, count = next(iter(rows.items()))
    if other := next((name for name, n in rows.items() if n != count), None):
        raise ApiError("tensor_shape", f"{other!r} has {rows[other]} rows, {first!r} has {count}", field=other)
    if count == 0:
        raise ApiError("empty_batch", f"input {first!r} has no rows", field=first, hint="send at least one row")
    if count > max_rows:
        raise ApiError(
            "too_many_rows", f"{count} rows came, the limit is {max_rows}", field=first, hint="split the request"
        )


def _fits(shape: tuple[int, ...], expected: list[int | str]) -> bool:
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(isinstance(e, str) or e in (-1, n) for n, e in pairs)


def _check_wanted(wanted: Collection[str], names: Collection[str]) -> None:
    if unknown := [w for w in wanted if w not in names]:
        raise ApiError(
            "output_unknown", f"the model has no output {unknown[0][:60]!r}", field="outputs",
            hint=f"the model's outputs: {', '.join(names)}",
        )  # fmt: skip


def _select(outputs: Tensors, wanted: Collection[str] | None) -> Tensors:
    if wanted is None:
        return outputs
    _check_wanted(wanted, outputs)
    return {name: outputs[name] for name in wanted}


def _explanation(call: Call) -> Parameters:
    assert call.model is not None
    return {
        "request_id": call.request_id,
        "digest": call.model.digest,
        "batch_rows": call.batch_rows,
        **call.timings(),
    }
