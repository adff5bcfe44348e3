"""Chat with the pruned language model by the official `openai` package: `python examples/chat_openai.py "Hello"`.

Needs a running server with language models (`pressroom serve llm` presses the embedded one, dense and pruned) and
`pip install openai`. `--model smollm2` asks the dense twin.
"""

from __future__ import annotations

import argparse

from openai import OpenAI


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask one question, and read the answer as it is made.")
    parser.add_argument("question")
    parser.add_argument("--url", default="http://127.0.0.1:3000/v1")
    parser.add_argument("--model", default="smollm2-ria-2-4", help="half of its weights are zero")
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()

    client = OpenAI(base_url=options.url, api_key="none")  # your key, where the server asks for one
    stream = client.chat.completions.create(
        model=options.model,
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
            print(f"\n{chunk.usage.completion_tokens} tokens of {options.model}, {chunk.system_fingerprint}")


if __name__ == "__main__":
    main()
