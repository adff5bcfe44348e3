"""`pressroom export text-detect`: press a detector of texts a language model of the store may have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.output import console, identity, print_json, print_table, progress_bar, stored_line

if TYPE_CHECKING:
    from export.text_detect import Pressed, Served
    from export.text_detect_parity import Finding
    from models.dna_gpt.detector import DetectorSpec
    from models.dna_gpt.reading import Reading
    from services.text_detection.detection import Detection

EXAMPLE = """\b
Example:
  pressroom export text-detect --generator smollm2 --name smollm2-text"""

Generator = Annotated[str, typer.Option(help="The language model under suspicion: name or name:version.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
Ratio = Annotated[float | None, typer.Option(help="Share of a text's words that are given. Default: 0.5.")]
Regenerations = Annotated[int | None, typer.Option(help="Of the rest of a text. Default: 5.")]
Temperature = Annotated[float | None, typer.Option(help="Of the regenerations. Default: 0.7.")]
MostWords = Annotated[int | None, typer.Option(help="Of a text that are read. Default: 400.")]
Tokens = Annotated[int | None, typer.Option("--regeneration-tokens", help="Of one at most. Default: 300.")]
FewestWords = Annotated[int | None, typer.Option(help="A text must have. Default: 50.")]
FewestDistinct = Annotated[int | None, typer.Option(help="Different words a text must have. Default: 25.")]
WhiteBox = Annotated[
    str | None,
    typer.Option(help="What verdicts rest on: curvature, w_score, mean_log_prob, demo, ... Default: curvature."),
]
BlackBox = Annotated[str | None, typer.Option(help="The same for black box: demo, notebook, formula. Default: demo.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def text_detect(
    name: Name,
    generator: Generator = "smollm2",
    version: Version = None,
    ratio: Ratio = None,
    regenerations: Regenerations = None,
    temperature: Temperature = None,
    most_words: MostWords = None,
    regeneration_tokens: Tokens = None,
    fewest_words: FewestWords = None,
    fewest_distinct: FewestDistinct = None,
    white_box: WhiteBox = None,
    black_box: BlackBox = None,
    as_json: AsJson = False,
) -> None:
    """Press a detector, without thresholds yet: `pressroom calibrate text-detect` adds them."""
    named = {
        "ratio": ratio,
        "regenerations": regenerations,
        "temperature": temperature,
        "most_words": most_words,
        "regeneration_tokens": regeneration_tokens,
        "fewest_words": fewest_words,
        "fewest_distinct": fewest_distinct,
        "white_box": white_box,
        "black_box": black_box,
    }
    with progress_bar() as report:
        from export.text_detect import DetectorJob, plan, press

        settings = {option: value for option, value in named.items() if value is not None}
        job = DetectorJob(generator=generator, name=name, version=version, settings=settings)
        report("ask the engine", 0, 2)
        spec = plan(job)
        served = ask_engine(spec)
        report("certify", 1, 2)
        pressed = press(job, spec, served)
        report("store", 2, 2)
    print_json(_as_json(pressed)) if as_json else _show(pressed)


def ask_engine(spec: DetectorSpec) -> Served:
    """What the serving engine says about the certificate's texts and the example."""
    from export.text_detect import Served
    from services.text_detection.local import with_detector

    async def ask(detection: Detection) -> Served:
        return Served(await _readings(detection), await answer_example(detection))

    return with_detector(spec, local_settings(), ask)


async def answer_example(detection: Detection) -> dict[str, Any]:
    """The answer to the artifact's example."""
    from export.text_detect import EXAMPLE_REQUEST
    from services.core.call import Call
    from services.text_detection.request import read_request

    return await detection.answer(read_request(EXAMPLE_REQUEST, detection.spec, 1), Call("example", "none", "example"))


async def _readings(detection: Detection) -> dict[str, Reading]:
    """Of those of the certificate's texts that can be judged."""
    from export.text_detect import CASE_REGENERATIONS
    from export.text_detect_cases import TEXTS
    from services.text_detection.local import ask_all

    found = await ask_all(detection, list(TEXTS.values()), "white_box", CASE_REGENERATIONS)
    return {name: asked.reading for name, (_, asked) in zip(TEXTS, found, strict=True) if asked is not None}


def local_settings() -> Any:
    """Settings as a server here would have them: the environment's."""
    from export.errors import OptionError
    from services.core.settings import SettingsError, load_settings

    try:
        return load_settings().values
    except SettingsError as error:
        raise OptionError(str(error), "see docs/settings.md") from None


HEADINGS = ("text", "tokens", "W-score", "curvature", "mean log-prob", "max |diff|", "")


def rows(findings: list[Finding], tolerance: float) -> list[list[str]]:
    """One line a text of the certificate, as the engine scored it."""
    return [
        [
            one.name,
            str(len(one.tokens)),
            *(_number(one.served[name]) for name in ("w_score", "curvature", "mean_log_prob")),
            f"{one.difference:.1e}",
            "ok" if one.difference <= tolerance else "FAIL",
        ]
        for one in findings
    ]


def findings_of(certificate: dict[str, Any]) -> list[Finding]:
    """The certificate's cases."""
    from export.text_detect_parity import Finding

    return [Finding(**{key: value for key, value in case.items() if key != "max_abs"}) for case in certificate["cases"]]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _show(pressed: Pressed) -> None:
    stored, proof = pressed.stored, pressed.certificate
    console().print(stored_line(stored), markup=False, soft_wrap=True)
    print_table(HEADINGS, rows(findings_of(proof), proof["tolerance"]["atol"]))
    console().print(
        f"no threshold yet, so every verdict is inconclusive: pressroom calibrate text-detect --name {stored.name}",
        markup=False,
        soft_wrap=True,
    )


def _as_json(pressed: Pressed) -> dict[str, Any]:
    stored = pressed.stored
    return {
        **identity(stored),
        "certificate": pressed.certificate,
        "settings": pressed.spec.as_settings(),
    }
