"""Faults on requests that hold health records: what may be said about them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import InputError
from models.motor.answers import HazardError
from services.core.call import Call
from services.core.errors import ApiError

log = logging.getLogger("pressroom.ehr")


@contextmanager
def without_content(call: Call) -> Iterator[None]:
    """Let stated refusals through; any other exception is logged by type and line, never by its words.

    An exception's message often quotes the value it fell over, and the frames behind it hold the request.
    """
    try:
        yield
    except (InputError, ApiError):
        raise
    except HazardError:
        raise ApiError("inference_failed", "the network's answer is not finite") from None
    except Exception as fault:
        log.error("request %s failed: %s at %s", call.request_id, type(fault).__name__, _place(fault))
        raise ApiError("internal", "the server failed on this request", hint="report the request id") from None


def _place(fault: BaseException) -> str:
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
