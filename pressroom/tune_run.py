"""What `pressroom tune` measures: one model on a server with the settings of a point, under closed clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from export.errors import ExportError
from pressroom.bench_load import Load
from pressroom.bench_requests import from_model
from pressroom.bench_run import Pace, Plan, Result, measure
from pressroom.bench_target import Model, Server, ask_model, read_server
from pressroom.bench_text import Prompting, TextWindow, measure_text
from pressroom.own_server import Gateway, ServerError, gateway
from pressroom.tune_search import Point, Trial, Value
from services.core.settings import PREFIX, Settings

PACE = Pace(seconds=1.5, warm=1.0, stability=0.1, max_windows=4)
TEXT_PACE = Pace(seconds=4.0, warm=2.0, stability=0.1, max_windows=4)
ROWS, DELAYS = (1, 4, 8, 16, 32, 64, 128), (0.0, 1.0, 2.0, 5.0, 10.0)
FREE = {"keys_file": "", "tls_cert": "", "tls_key": "", "tls_client_ca": "", "access_log": "off"}  # on loopback


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every point is measured with. wire: None for the model's first."""

    model: str
    clients: int
    wire: str | None
    seed: int


def grid_of(family: str, cores: int) -> dict[str, Sequence[Value]]:
    """The settings that matter to a family, with the values tried; several processes and threads up to the cores."""
    powers = tuple(n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores)
    shared: dict[str, Sequence[Value]] = {"workers": powers, "threads": powers}
    if family == "llm":
        return {"threads": powers, "llm_slots": (4, 8, 16, 32), "llm_prefill_chunk": (16, 32, 64, 128, 256)}
    if family == "detect":
        return {**shared, "detect_max_images": (1, 2, 4, 8, 16), "detect_decoders": powers if cores > 1 else (1, 2)}
    if family == "ehr":
        return {**shared, "ehr_batch_tokens": (1024, 2048, 4096, 8192, 16384)}
    return {**shared, "max_delay_ms": DELAYS, "max_batch_rows": ROWS}


def start_of(grid: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
    """The defaults, or the value next to one."""
    defaults = {name: Settings.model_fields[name].default for name in grid}
    return {name: min(values, key=lambda value: abs(value - defaults[name])) for name, values in grid.items()}


def try_point(point: Point, work: Workload) -> Trial:
    """Start a server with these settings, measure, stop it."""
    settings = {**FREE, **dict(point), "models": work.model}
    environment = {PREFIX + name.upper(): str(value) for name, value in settings.items()}
    try:
        with gateway(environment) as running:
            result = _under_load(running, work)
    except (ServerError, ExportError) as error:
        return Trial(point, 0.0, float("inf"), False, str(error).strip().splitlines()[-1])
    window = result.settled
    rate = window.tokens_rate if isinstance(window, TextWindow) else window.rate
    fault = "" if not result.failed else ", ".join(f"{count} x {what}" for what, count in result.failed.items())
    fault = fault or (f"{result.wrong} answers of {result.compared} differ" if result.wrong else "")
    p99 = window.percentile_ms(99)
    return Trial(point, rate, p99, result.stable, fault or ("" if window.latencies else "nothing was answered"))


def _under_load(running: Gateway, work: Workload) -> Result:
    import uvloop

    server = read_server(running.url, running.grpc_url)
    model = ask_model(server, work.model)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(server, model, work))


async def _measure(server: Server, model: Model, work: Workload) -> Result:
    loads = [Load(clients=work.clients)]
    if model.generates:
        return (await measure_text(server, Prompting(model=work.model), loads, TEXT_PACE, _quietly))[0]
    payload = from_model(model, 1, {}, work.seed)
    wire = work.wire or ("oip-binary" if "oip-binary" in payload.wires else payload.wires[0])
    if wire not in payload.wires:
        raise ExportError(f"{work.model} cannot be asked by {wire}", f"choose {', '.join(payload.wires)}")
    plan = Plan(wires=[wire], loads=loads, pace=PACE, tolerance=0.1)
    return (await measure(server, model, payload, plan, _quietly))[0]


def _quietly(step: str, done: int, total: int) -> None:
    """Progress of a trial is the search's."""


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))
