"""Texts a detector is calibrated and measured on: people's, SmolLM2's own, other models'.

People and other models: data/detection and, for long texts, articles of data/text. SmolLM2's are generated here through
the served engine, by seeds, and kept in out/, so that a second run takes no time:

    abstracts   the chat "Write the abstract of a paper titled ..." with every title of human_only.jsonl
    openings    continuations of the first words of every Wikipedia passage of pairs.jsonl, as its machine texts are
    answers     the chat of every biomedical question of pairs.jsonl; question and answer in one text, as there
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from export.artifact import Artifact
from services.core.call import Call
from services.core.settings import Settings
from services.generation.engine import Engine
from services.generation.observer import Unobserved
from services.generation.pool import EnginePool, read_spec
from services.generation.request import GenerationRequest, Sampling
from services.openai.chat_template import ChatTemplate

DATA = Path(__file__).resolve().parents[1] / "data"
OPENING_WORDS = 12  # of a person, at the head of a continuation
LONGEST, SHORTER, ONE_IN = 560, 240, 3  # tokens, some 400 and 170 words: one text in three is long, as they cost
TEMPERATURE, TOP_P = 0.8, 0.95
QUESTION, ANSWER = "Question: ", " Answer: "


@dataclass(frozen=True)
class Text:
    """One text with its origin. source: where it is from; author: "human", "smollm2" or another model's name."""

    id: str
    source: str
    author: str
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())


def people() -> list[Text]:
    """Everything a person wrote in data/detection, and long passages of Wikipedia articles."""
    pairs = [Text(row["id"], row["domain"], "human", row["human"].strip()) for row in _rows("pairs.jsonl")]
    alone = [Text(row["id"], "abstract", "human", row["text"].strip()) for row in _rows("human_only.jsonl")]
    return [*pairs, *alone, *_articles()]


def other_models() -> list[Text]:
    """The machine side of pairs.jsonl."""
    return [Text(row["id"], row["domain"], row["generator"], row["machine"].strip()) for row in _rows("pairs.jsonl")]


def smollm2(artifact: Artifact, kept: Path) -> list[Text]:
    """SmolLM2's texts; made if `kept` does not hold them. artifact: of the language model that writes."""
    if not kept.is_file():
        made = asyncio.run(_everything(artifact))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(json.dumps(asdict(text), ensure_ascii=False) + "\n" for text in made), "utf-8")
    return [Text(**json.loads(line)) for line in kept.read_text("utf-8").splitlines()]


async def _everything(artifact: Artifact) -> list[Text]:
    return [text async for text in _generated(artifact)]


async def _generated(artifact: Artifact) -> AsyncIterator[Text]:
    """In batches that fill the engine's slots, in the prompts' order."""
    settings = Settings(llm_context=1024)
    hold = EnginePool().hold(artifact, settings, Unobserved())
    assert isinstance(hold.engine, Engine)
    prompts = list(_prompts(artifact))
    for at in range(0, len(prompts), settings.llm_slots):
        batch = prompts[at : at + settings.llm_slots]
        texts = await asyncio.gather(
            *(_write(hold.engine, prompt, at + i) for i, (_, _, prompt, _) in enumerate(batch))
        )
        for (name, source, _, head), text in zip(batch, texts, strict=True):
            yield Text(name, source, "smollm2", (head + text).strip())
        print(f"generated {at + len(batch)} of {len(prompts)} texts", flush=True)
    await hold.release()


async def _write(engine: Engine, prompt: str, seed: int) -> str:
    request = GenerationRequest(
        prompt=tuple(engine.tokenizer.encode(prompt)),
        max_tokens=SHORTER if seed % ONE_IN else LONGEST,
        sampling=Sampling(temperature=TEMPERATURE, top_p=TOP_P, seed=seed),
    )
    return "".join([piece.text async for piece in engine.submit(request, Call("benchmark", "none", str(seed)))])


def _prompts(artifact: Artifact) -> Iterator[tuple[str, str, str, str]]:
    """Id, source, what the model reads, and what stands before its answer in the text."""
    template = ChatTemplate.from_file(artifact.file("chat_template.jinja"), read_spec(artifact))
    for row in _rows("human_only.jsonl"):
        wish = f"Write the abstract of a scientific paper titled “{row['title']}”. About 250 words, plain prose."
        yield row["id"], "abstract", _chat(template, wish), ""
    for row in _rows("pairs.jsonl"):
        if row["domain"] == "wikipedia":
            opening = " ".join(row["human"].split()[:OPENING_WORDS])
            yield row["id"], "wikipedia", opening, opening
        else:
            question = row["human"].split(ANSWER)[0].removeprefix(QUESTION)
            yield row["id"], "biomedical-qa", _chat(template, question), f"{QUESTION}{question}{ANSWER}"


def _chat(template: ChatTemplate, words: str) -> str:
    return template.render([{"role": "user", "content": words}])


def _articles(words: int = 420) -> Iterator[Text]:
    """The first words of every article of data/text that has so many, headings left out."""
    for name in ("wikitext2_calibration.txt", "wikitext2_eval.txt"):
        for number, prose in enumerate(_prose((DATA / "text" / name).read_text("utf-8").splitlines())):
            found = _untokenised(prose).split()
            if len(found) >= words:
                yield Text(f"{name[10:14]}-{number}", "article", "human", " ".join(found[:words]))


def _prose(lines: Sequence[str]) -> Iterator[str]:
    """The paragraphs of one article after another; " = Title = " begins an article, " = = Title = = " a section."""
    prose: list[str] = []
    for line in lines:
        if not line.startswith(" ="):
            prose.append(line.strip())
        elif not line.startswith(" = =") and prose:
            yield " ".join(prose)
            prose = []
    yield " ".join(prose)


def _untokenised(text: str) -> str:
    """WikiText-2 separates punctuation by spaces; nobody writes so."""
    for spaced, plain in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."), (" 's", "'s"), (" n't", "n't")):
        text = text.replace(spaced, plain)
    for mark in ",.;:!?)%":
        text = text.replace(f" {mark}", mark)
    return text.replace("( ", "(")


def _rows(name: str) -> Iterator[dict[str, Any]]:
    for line in (DATA / "detection" / name).read_text("utf-8").splitlines():
        yield json.loads(line)
