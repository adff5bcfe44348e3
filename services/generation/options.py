"""How one engine is set up: slots, memory, queue. Settings of the server become these."""

from __future__ import annotations

from dataclasses import dataclass

from services.core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Limits of one engine.

    slots           sequences that run at once, >= 1
    context         tokens of prompt and answer of one sequence, at most; 0: what the model allows
    kv_tokens       tokens of all running sequences together (prompt + max_tokens is reserved on admission);
                    0: slots x context
    prefill_chunk   prompt tokens worked on between two steps of the running sequences, >= 2
    prefix_tokens   tokens of finished sequences kept for prompts that begin alike; 0: none
    max_queue       sequences that may wait; beyond: queue_full
    max_failures    failures in a row that open the circuit, >= 1
    cooldown_s      seconds an open circuit refuses
    """

    slots: int = 16
    context: int = 0
    kv_tokens: int = 0
    prefill_chunk: int = 64
    prefix_tokens: int = 4096
    max_queue: int = 256
    max_failures: int = 10
    cooldown_s: float = 5.0

    @classmethod
    def of(cls, settings: Settings) -> EngineOptions:
        """What the server's settings say."""
        return cls(
            slots=settings.llm_slots,
            context=settings.llm_context,
            kv_tokens=settings.llm_kv_tokens,
            prefill_chunk=settings.llm_prefill_chunk,
            prefix_tokens=settings.llm_prefix_cache_tokens,
            max_queue=settings.llm_max_queue,
            max_failures=settings.max_failures,
            cooldown_s=settings.cooldown_seconds,
        )
