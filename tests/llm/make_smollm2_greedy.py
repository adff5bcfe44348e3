"""Writes smollm2_greedy.json: what transformers answers to the 50 prompts below, greedily, in float32.

    python tests/e2e/make_smollm2_greedy.py FOLDER

FOLDER is SmolLM2-135M-Instruct as a Hugging Face folder (`pressroom export llm smollm2` reads the same weights).
`gap` is the smallest distance between the likeliest and the second likeliest logit on an answer's way: how much two
float32 programs may differ before they may say different things.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOKENS = 24
OUT = Path(__file__).with_name("smollm2_greedy.json")

TEXTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "The three laws of thermodynamics are",
    "Dear Sir or Madam,\n\n",
    "2, 4, 8, 16,",
    "In 1969, the first humans",
    "Water boils at",
    "#include <stdio.h>\n\nint main(",
    "To be, or not to be,",
    "The quick brown fox",
    "My favourite recipe begins with",
    "La capitale de l'Allemagne est",
    "Photosynthesis is the process by which",
    "SELECT name, age FROM",
    "The train leaves at 9:45 and arrives at",
    "“I don't know,” she said,",
    "Q: What is the largest planet?\nA:",
    "A haiku about winter:\n",
    "import numpy as np\n\n",
    "The mitochondria are",
    "Breaking news:",
    "1. Wash your hands\n2.",
    "The moral of the story is",
    "Café, naïve and résumé are words that",
]
QUESTIONS = [
    "What is the capital of Japan?",
    "Write one sentence about rain.",
    "Name three primary colours.",
    "What is 7 + 5?",
    "Translate 'good morning' into French.",
    "Explain gravity to a child.",
    "Who wrote Romeo and Juliet?",
    "Give me a synonym for happy.",
    "What do bees make?",
    "Write a Python function that adds two numbers.",
    "How many days are in a leap year?",
    "Tell me a joke.",
    "What is the opposite of hot?",
    "List two fruits that are red.",
    "Why is the sky blue?",
    "Complete: the early bird catches the",
    "What language is spoken in Brazil?",
    "How do I boil an egg?",
    "Is the earth flat?",
    "Summarise: The cat sat on the mat and slept all day.",
    "What is H2O?",
    "Say hello in Spanish.",
    "Which is bigger, the sun or the moon?",
    "What comes after Monday?",
    "Emoji for a smile, please: 🙂?",
]


def main(folder: Path) -> None:
    """Answer every prompt, one by one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    cases: list[dict[str, Any]] = [{"prompt": text} for text in TEXTS]
    cases += [{"messages": [{"role": "user", "content": question}]} for question in QUESTIONS]
    for case in cases:
        case |= _answer(model, tokenizer, case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    OUT.write_text(f'{{"model": "SmolLM2-135M-Instruct", "max_tokens": {TOKENS}, "cases": [\n{lines}\n]}}\n')


def _answer(model: Any, tokenizer: Any, case: dict[str, Any]) -> dict[str, Any]:
    import torch

    if "messages" in case:
        ids = tokenizer.apply_chat_template(
            case["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
    else:
        ids = tokenizer(case["prompt"], return_tensors="pt", add_special_tokens=False)
    out = model.generate(
        ids["input_ids"],
        attention_mask=torch.ones_like(ids["input_ids"]),
        max_new_tokens=TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = out.sequences[0, ids["input_ids"].shape[1] :].tolist()
    best = torch.stack(out.logits)[:, 0].topk(2).values
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    ended = tokens[-1] in ends
    return {
        "tokens": tokens[:-1] if ended else tokens,
        "finish_reason": "stop" if ended else "length",
        "gap": round(float((best[:, 0] - best[:, 1]).min()), 4),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
