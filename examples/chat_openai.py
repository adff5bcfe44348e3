"""Chat with a served language model through the official `openai` package: `python examples/chat_openai.py "Hello"`.

Needs a running server with a language model (`pressroom serve llm`) and `pip install openai`.
"""

from __future__ import annotations

import argparse

from openai import OpenAI


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask one question, and read the answer as it is made.")
    parser.add_argument("question")
    parser.add_argument("--url", default="http://127.0.0.1:3000/v1")
    parser.add_argument("--model", help="default: the first language model of the server")
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()

    client = OpenAI(base_url=options.url, api_key="none")
    model = options.model or next(m.id for m in client.models.list() if getattr(m, "family", "") == "llm")
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": options.question}],
        max_tokens=options.max_tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        elif chunk.usage:
            print(f"\n{chunk.usage.completion_tokens} tokens of {model}, {chunk.system_fingerprint}")


if __name__ == "__main__":
    main()
