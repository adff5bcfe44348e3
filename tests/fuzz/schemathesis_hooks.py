"""What the made-up requests of `test_schemathesis.py` must not contain, because the document cannot say it."""

from __future__ import annotations

from typing import Any

import schemathesis

_TIMEOUT = "X-Request-Timeout-Ms"


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """No headers the document does not name: HTTP allows them everywhere, schemathesis calls them invalid."""
    return not any(name.lower().startswith("x-schemathesis-unknown") for name in case.headers or {})


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """A valid deadline gets long enough to be met: 504 is the right answer to one millisecond, but a 5xx."""
    sent = str((case.headers or {}).get(_TIMEOUT, ""))
    if sent.isdigit() and 0 < int(sent) < 10_000:
        case.headers[_TIMEOUT] = "10000"
    return case
