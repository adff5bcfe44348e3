"""Write the generated parts of docs/: settings, metrics, error codes, routes and the command reference.

A page holds a part between two comments; everything around them is written by hand:

    <!-- generated: settings -->
    ...
    <!-- end -->

    python scripts/generate_docs.py            rewrite every part
    python scripts/generate_docs.py --check    exit 1 and name the pages that are out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
HELP_WIDTH = 100
_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def settings() -> str:
    """Every server setting with its variable, default, bounds and meaning."""
    from services.core.settings import PREFIX, Settings

    rows = []
    for name, field in Settings.model_fields.items():
        default = "empty" if field.default == "" else f"`{field.default}`"
        rows.append([f"`{name}`", f"`{PREFIX}{name.upper()}`", default, _bounds(field), field.description or ""])
    return table(["setting", "environment variable", "default", "range", "meaning"], rows)


def _bounds(field: Any) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [(signs[key], value) for rule in field.metadata for key, value in _rules(rule) if key in signs]
    return ", ".join(f"{sign} {value:g}" for sign, value in found) or field.annotation.__name__


def _rules(rule: Any) -> Iterator[tuple[str, Any]]:
    for key in ("ge", "gt", "le", "lt"):
        value = getattr(rule, key, None)
        if value is not None:
            yield key, value


def metrics() -> str:
    """Every metric the services register, with labels, buckets and the interval it measures."""
    from prometheus_client.metrics import MetricWrapperBase

    from services import (
        detect_metrics,
        ehr_metrics,
        forecast_metrics,
        llm_metrics,
        text_detect_metrics,
        watermark_metrics,
    )
    from services.core import metrics as core

    found = [
        value
        for module in (
            core,
            forecast_metrics,
            llm_metrics,
            text_detect_metrics,
            watermark_metrics,
            detect_metrics,
            ehr_metrics,
        )
        for value in vars(module).values()
    ]
    rows = [_metric_row(value) for value in found if isinstance(value, MetricWrapperBase)]
    return table(["metric", "type", "labels", "meaning", "buckets"], rows)


def _metric_row(metric: Any) -> list[str]:
    kind = metric._type
    name = metric._name + ("_total" if kind == "counter" else "")
    buckets = " ".join(f"{edge:g}" for edge in getattr(metric, "_kwargs", {}).get("buckets", ())) or "-"
    labels = ", ".join(f"`{label}`" for label in metric._labelnames) or "-"
    return [f"`{name}`", kind, labels, metric._documentation, buckets]


def errors() -> str:
    """The closed list of error codes, with the client's exceptions."""
    from pressroom_client._error_codes import BY_CODE

    from services.core.errors import CODES

    rows = [
        [f"`{code}`", str(found.http), f"`{found.grpc}`", found.meaning, f"`{BY_CODE[code].__name__}`"]
        for code, found in CODES.items()
    ]
    return table(["code", "HTTP", "gRPC", "meaning", "Python client"], rows)


def routes() -> str:
    """Every documented route of the gateway."""
    from services.core.http.openapi import openapi_document
    from services.gateway import Gateway

    gateway: Any = Gateway
    paths = openapi_document(list(gateway.families))["paths"]
    rows = [
        [method.upper(), f"`{path}`", operation["summary"]]
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]
    return table(["method", "path", "what"], rows)


def cli() -> str:
    """`--help` of every command."""
    import typer

    from pressroom.cli import app

    parts = [f"## `{' '.join(path)}`\n\n```text\n{text}\n```\n" for path, text in _helps(typer.main.get_command(app))]
    return "\n".join(parts)


def _helps(command: Any, path: tuple[str, ...] = ("pressroom",), parent: Any = None) -> Iterator[tuple[Any, str]]:
    context = command.context_class(
        command, info_name=path[-1], parent=parent, terminal_width=HELP_WIDTH, help_option_names=["-h", "--help"]
    )
    yield path, command.get_help(context).rstrip()
    for name in sorted(getattr(command, "commands", {})):
        yield from _helps(command.commands[name], (*path, name), context)


def refusals() -> str:
    """What a forecaster refuses, as its pipeline says it."""
    from broken_series import BROKEN, refusal

    rows = []
    for what, change in BROKEN:
        error = refusal(change)
        rows.append([what, f"`{error.code}`", f"`{error.field}`", error.message, error.hint or ""])
    return table(["sent", "code", "field", "message", "hint"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "metrics": metrics,
    "errors": errors,
    "routes": routes,
    "cli": cli,
    "refusals": refusals,
}


def render(page: str) -> str:
    """A page with every generated part written anew. Raises KeyError for a part that does not exist."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found['name']]().rstrip()}\n{found[3]}", page)


def outdated() -> list[Path]:
    """Pages whose generated parts differ from the program, after nothing was written."""
    return [page for page in sorted(DOCS.glob("*.md")) if render(page.read_text()) != page.read_text()]


def main() -> int:
    """Rewrite or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the generated parts of docs/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    pages = outdated()
    for page in pages:
        print(f"{page.relative_to(ROOT)}: {'out of date, run python scripts/generate_docs.py' if check else 'written'}")
        if not check:
            page.write_text(render(page.read_text()))
    return 1 if check and pages else 0


if __name__ == "__main__":
    sys.exit(main())
