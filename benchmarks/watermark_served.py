"""A gateway that marks and reads, asked over HTTP as anybody would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cpu import ServerCpu
from benchmarks.server import gateway

Json = dict[str, Any]
SAMPLING: Json = {"temperature": 1.0, "top_p": 0.95}
TOKENS = 200
AT_ONCE = 16  # texts of one reading request, sequences generated at once
ANOTHER = 100  # between the seeds a prompt is tried with


@dataclass(frozen=True)
class Served:
    """One running gateway with a language model and its scheme."""

    http: httpx.Client
    cpu: ServerCpu
    llm: str
    scheme: str

    def post(self, path: str, body: Json) -> Json:
        """The answer; raises for a refusal, with its words."""
        answer = self.http.post(path, json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"{path}: {answer.text[:400]}")
        found: Json = answer.json()
        return found

    def texts(
        self, prompts: Sequence[str], messages: Sequence[int | None], seed: int, tokens: int = TOKENS, **more: Any
    ) -> list[Json]:
        """A text of exactly so many tokens for each prompt, marked where there is a message.

        A text that ends earlier by itself is drawn again with another seed. more: further fields of the requests
        """

        def text(prompt: str, message: int | None, seed: int) -> Json:
            while True:
                found = self._drawn({"prompt": prompt, "max_tokens": tokens, "seed": seed, **SAMPLING, **more}, message)
                if found["finish_reason"] == "length":
                    return found
                seed += ANOTHER

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(text, prompts, messages, range(seed, seed + len(prompts))))

    def _drawn(self, body: Json, message: int | None) -> Json:
        if message is None:
            choice: Json = self.post("/v1/completions", {"model": self.llm, **body})["choices"][0]
            return choice
        return self.post("/v1/watermark/generate", {"model": self.scheme, "watermark": {"message": message}, **body})

    def decode(self, texts: Sequence[str], **asked: Any) -> list[Json]:
        """One reading a text."""
        found: list[Json] = []
        for at in range(0, len(texts), AT_ONCE):
            body = {"model": self.scheme, "texts": list(texts[at : at + AT_ONCE]), **asked}
            found += self.post("/v1/watermark/decode", body)["results"]
        return found

    def log_probabilities(self, prompt: str, text: str) -> list[float]:
        """Of a text's tokens after its prompt, by the language model itself, unmarked."""
        body = {"model": self.llm, "prompt": prompt + text, "max_tokens": 0, "echo": True, "logprobs": 0}
        scores = self.post("/v1/completions", body)["choices"][0]["logprobs"]
        pairs = zip(scores["text_offset"], scores["token_logprobs"], strict=True)
        return [value for offset, value in pairs if offset >= len(prompt)]


@contextmanager
def served(llm: str, scheme: str, keys: Path, threads: int = 1) -> Iterator[Served]:
    """A gateway over the current store."""
    settings = {
        "PRESSROOM_MODELS": f"{llm},{scheme}",
        "PRESSROOM_THREADS": str(threads),
        "PRESSROOM_WATERMARK_KEYS_FILE": str(keys),
        "PRESSROOM_WATERMARK_SCHEME": scheme,
        "PRESSROOM_WATERMARK_DECODES_PER_MINUTE": "0",
        "PRESSROOM_REQUEST_TIMEOUT_MS": "600000",
        "PRESSROOM_LLM_PREFIX_CACHE_TOKENS": "0",
    }
    with gateway(settings) as running, httpx.Client(base_url=running.url, timeout=900) as http:
        yield Served(http, ServerCpu(running.pid), llm, scheme)


def write_keys(path: Path, ids: Sequence[str]) -> Path:
    """A key file of fixed keys: a benchmark can be repeated, and guards nothing."""
    entries = [f'[[keys]]\nid = "{one}"\nsecret = "{(one.encode().hex() * 32)[:64]}"\n' for one in ids]
    path.write_text(f'current = "{ids[0]}"\n\n' + "\n".join(entries))
    path.chmod(0o600)
    return path
