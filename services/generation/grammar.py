"""Answers that must follow a JSON schema, a regular expression or a grammar, with the `llguidance` library.

The functions below write a grammar as `GenerationRequest.grammar` wants it and refuse what the library cannot read;
`GrammarCompiler` belongs to one tokenizer and makes a `Grammar` for each sequence.
"""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

import llguidance
import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.generation.tokenizer import Tokenizer

# small models like to go on with blanks for ever, where a schema allows any between two words
_JSON_DEFAULTS: Any = {"whitespace_pattern": r"[ \t\r\n]{0,8}"}


def json_schema_grammar(schema: Any) -> str:
    """JSON that the schema describes. Raises InputError for a schema that is none, or not supported."""
    try:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), _JSON_DEFAULTS)
    except (ValueError, TypeError) as fault:
        raise _refusal(str(fault)) from None
    return _checked(grammar)


def json_object_grammar() -> str:
    """Any JSON object."""
    return json_schema_grammar({"type": "object"})


def regex_grammar(pattern: str) -> str:
    """Text the whole of which matches. Raises InputError."""
    return _checked(llguidance.LLMatcher.grammar_from_regex(pattern))


def lark_grammar(text: str) -> str:
    """A context-free grammar in Lark's notation. Raises InputError."""
    return _checked(llguidance.LLMatcher.grammar_from_lark(text))


class Grammar:
    """Where one sequence stands in its grammar."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, [V]. Raises RuntimeError where the library gives up (a grammar too complex)."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.unpackbits(bits, bitorder="little")[: self._vocabulary].view(np.bool_)
        missing = self._vocabulary - len(mask)
        return np.pad(mask, (0, missing)) if missing else mask

    def take(self, token: int) -> bool:
        """Go on by one token; True where the text is complete and nothing can follow. Raises RuntimeError."""
        self._matcher.consume_token(token)
        self._check()
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(f"the grammar failed: {self._matcher.get_error()[:200]}")


class GrammarCompiler:
    """Grammars over one vocabulary. The vocabulary's index takes about a second; it is made when first needed."""

    def __init__(self, tokenizer: Tokenizer, spec: LanguageModelSpec) -> None:
        self._tokenizer = tokenizer
        self._spec = spec
        self._index: Any = None
        self._lock = Lock()

    def compile(self, grammar: str) -> Grammar:
        """Raises InputError. Slow: call it neither in the event loop nor between steps."""
        with self._lock:
            if self._index is None:
                self._index = self._make_index()
        matcher = llguidance.LLMatcher(self._index, grammar, log_level=0)
        if matcher.is_error():
            raise _refusal(matcher.get_error())
        return Grammar(matcher, self._spec.vocabulary)

    def _make_index(self) -> Any:
        ends = list(self._spec.end_tokens) or None
        return llguidance.LLTokenizer(self._tokenizer.as_json(), n_vocab=self._spec.vocabulary, eos_token=ends)


def _checked(grammar: str) -> str:
    is_wrong, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar)
    if is_wrong:
        raise _refusal(messages[0] if messages else "not readable")
    return grammar


def _refusal(why: str) -> InputError:
    first = why.strip().splitlines()[0] if why.strip() else "not readable"
    return InputError("invalid_request", f"the grammar cannot be used: {first[:300]}")
