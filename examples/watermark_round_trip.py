"""A message into a text and out again: `python examples/watermark_round_trip.py [PROMPT] [--message 613] [--url URL]`.

Needs a running server with a watermarking scheme and a key (docs/quickstart.md). Reading needs the text and the key:
no prompt, no language model. A verdict is evidence, not proof.
"""

from __future__ import annotations

import argparse

from pressroom_client import Client


def main() -> None:
    parser = argparse.ArgumentParser(description="Mark a text with a number, and read the number from the text.")
    parser.add_argument("prompt", nargs="?", default="The history of the town begins with")
    parser.add_argument("--message", type=int, default=613, help="the number to weave in")
    parser.add_argument(
        "--max-tokens", type=int, help="more than the message needs say it again; default: what it needs"
    )
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="http://host:port or grpc://host:port")
    parser.add_argument("--model", default="smollm2-mark", help="the scheme")
    options = parser.parse_args()

    with Client(options.url, timeout=120) as client:
        marked = client.generate(
            options.prompt,
            watermark=options.message,
            model=options.model,
            max_tokens=options.max_tokens,
            ignore_eos=True,
            seed=1,
        )
        reading = client.decode_watermark(marked.text, model=options.model).reading
        unmarked = client.decode_watermark(options.prompt, model=options.model).reading
        other = client.verify_watermark(marked.text, options.message + 1, model=options.model).verification

    print(f"{marked.model}:{marked.version} {marked.digest}, key {marked.key_id}")
    print(f"{marked.tokens} tokens: {marked.text.strip()[:200]!r} ...")
    print(f"read:          {reading.verdict}, message {reading.message}, p-value {reading.p_value:.1e}")
    print(f"the prompt:    {unmarked.verdict}")
    print(f"expecting {options.message + 1}: {other.verdict}, p-value {other.p_value:.2f}")


if __name__ == "__main__":
    main()
