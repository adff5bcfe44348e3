"""A language model and its pruned twin by the official `openai` package: `python examples/pruned_openai.py [PROMPT]`.

Needs a running server with both (`pressroom serve llm` presses the embedded one, dense and pruned) and
`pip install openai`. Half of the weights is much for a model this small: read what it costs.
"""

from __future__ import annotations

import argparse
import time

from openai import OpenAI


def main() -> None:
    parser = argparse.ArgumentParser(description="Let models continue a text, and read it as it is made.")
    parser.add_argument("prompt", nargs="?", default="The capital of France is")
    parser.add_argument("--url", default="http://127.0.0.1:3000/v1")
    parser.add_argument("--models", default="smollm2,smollm2-ria-2-4", help="names, comma separated")
    parser.add_argument("--max-tokens", type=int, default=40)
    options = parser.parse_args()

    client = OpenAI(base_url=options.url, api_key="none")  # your key, where the server asks for one
    for model in options.models.split(","):
        print(f"{model}: {options.prompt}", end="")
        tell(client, model, options.prompt, options.max_tokens)


def tell(client: OpenAI, model: str, prompt: str, max_tokens: int) -> None:
    """Print the continuation piece by piece, then how long it was and which artifact wrote it."""
    began = time.perf_counter()
    stream = client.completions.create(
        model=model,
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"repetition_penalty": 1.2},  # what OpenAI's own API does not have
    )
    for chunk in stream:
        if chunk.choices:
            print(chunk.choices[0].text, end="", flush=True)
        elif chunk.usage:
            rate = chunk.usage.completion_tokens / (time.perf_counter() - began)
            print(f"\n  {chunk.usage.completion_tokens} tokens, {rate:.0f} a second, {chunk.system_fingerprint}\n")


if __name__ == "__main__":
    main()
