"""`make demo`: from bundled checkpoints to forecasts and to text, in one command.

Press the two forecasters; prune the embedded language model and press it dense and pruned (nothing to do the second
time); start the gateway on free loopback ports with all four; send one real window of ETTh1's test rows through the
client over HTTP and gRPC, compare the answers, print them beside what really happened; ask both language models the
same question; draw `out/demo.png`; stop the server. The artifacts stay in the model store: `make serve` serves them.

    python -m pressroom.demo [--model FOLDER | --forecasts-only]

Exit status: 0 fine, 1 something failed (with the reason and a remedy on standard error).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pressroom.demo_report import PICTURE, Answer, draw, read_window, show
from pressroom.demo_text import Told, ask_twin, show_twins
from pressroom.output import fail, progress_bar
from pressroom.own_server import Gateway, ServerError, gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from export.progress import Report
    from export.store import Stored
    from pressroom.demo_report import Window

REMEDY = (
    "run `make demo` again, it takes other ports then; `pressroom verify itransformer-etth1` checks an artifact; "
    "`make serve` shows the whole log"
)
AGREE = 1e-6  # relative; both transports carry the same JSON numbers


class DemoError(RuntimeError):
    """The demo cannot go on. hint: what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # nothing here calls home
    options = _options(arguments)
    try:
        run(model=options.model, forecasts_only=options.forecasts_only)
    except DemoError as error:
        return fail(error.message, error.hint, 1, as_json=False)
    except OSError as error:
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return fail(what, "run this where you may write, with BENTOML_HOME set to such a folder", 1, as_json=False)
    except KeyboardInterrupt:
        return fail("interrupted", "the server is stopped; what was pressed is kept", 1, as_json=False)
    return 0


def run(*, model: Path | None, forecasts_only: bool) -> None:
    """All steps. model: a folder instead of the embedded language model. Raises DemoError."""
    from pressroom.bundled import press_bundled
    from pressroom.bundled_llm import press_twins

    began = time.monotonic()
    print("1/5 press the bundled forecasters into verified artifacts (under a minute the first time)", flush=True)
    forecasters = press(press_bundled)
    twins: list[Stored] = []
    if not forecasts_only:
        print("2/5 prune the embedded language model; press it dense and pruned (minutes the first time)", flush=True)
        twins = press(lambda report: press_twins(report, model=model))
    print("3/5 start the gateway and wait until it is ready", flush=True)
    started = time.monotonic()
    with server([*forecasters, *twins]) as address:
        print(f"    {address.url}  {address.grpc_url}  after {time.monotonic() - started:.1f} s")
        window = read_window()
        print(f"4/5 send {window.described} over HTTP and gRPC\n", flush=True)
        answers = [ask(one, window, address) for one in forecasters]
        show(answers, window)
        draw(answers, window)
        print(f"\nhistory, forecasts and truth are drawn in {PICTURE}")
        if twins:
            print("5/5 ask both language models the same question\n", flush=True)
            show_twins(twins, [tell(one, address) for one in twins])
    print(f"done in {time.monotonic() - began:.0f} s. The server is stopped; `make serve` starts one that stays.")


def press(work: Callable[[Report], list[Stored]]) -> list[Stored]:
    """Press what the store does not hold already, and say what was done."""
    from export.artifact import ArtifactError
    from export.errors import ExportError

    try:
        with progress_bar() as report:
            stored = work(report)
    except (ExportError, ArtifactError) as error:
        raise DemoError(error.message, error.hint or "`pressroom export bundled` repeats this step alone") from None
    for one in stored:
        print(f"    {one.tag}  {one.digest[:19]}  {'already there' if one.unchanged else 'certified and stored'}")
    return stored


@contextlib.contextmanager
def server(stored: list[Stored]) -> Iterator[Gateway]:
    """A gateway that serves exactly these artifacts; stopped in the end, whatever happened. Raises DemoError."""
    with contextlib.ExitStack() as running:
        try:
            started = running.enter_context(gateway({"PRESSROOM_MODELS": ",".join(one.tag for one in stored)}))
        except ServerError as error:
            raise DemoError(str(error), REMEDY) from None
        yield started


def ask(one: Stored, window: Window, address: Gateway) -> Answer:
    """The forecast of one model over both transports. Raises DemoError if the numbers differ."""
    from pressroom_client import Client, PressroomError

    results, took = [], []
    for url in (address.url, address.grpc_url):
        with Client(url) as client:
            client.ready()  # opens the connection, so that the time below is the request's
            began = time.perf_counter()
            try:
                results.append(client.forecast(window.history, model=one.tag))
            except PressroomError as error:
                raise DemoError(f"{one.tag} over {url}: {error}", "`make serve` shows the server's log") from None
            took.append((time.perf_counter() - began) * 1e3)
    answer = Answer(one.name, results[0], results[1], took[0], took[1])
    if answer.apart > AGREE:
        raise DemoError(f"{one.tag}: HTTP and gRPC differ by {answer.apart:.1e}", "this is a fault: please report it")
    return answer


def tell(one: Stored, address: Gateway) -> Told:
    """The answer of one language model."""
    from pressroom_client import PressroomError

    try:
        return ask_twin(one.tag, address.url)
    except PressroomError as error:
        raise DemoError(f"{one.tag}: {error}", "`make serve` shows the server's log") from None


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pressroom.demo", description="From bundled checkpoints to answers over HTTP and gRPC."
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--model", type=Path, metavar="FOLDER", help="another language model than the embedded one")
    choice.add_argument("--forecasts-only", action="store_true", help="no language model")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
