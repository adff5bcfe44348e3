"""Chat messages, checked one by one: roles the template knows, content as text or as parts of type text."""

from __future__ import annotations

from typing import Any

from models.errors import InputError
from services.openai.fields import Fields, refuse

Message = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant")
_EMPTY = ("refusal", "audio", "tool_calls", "function_call", "annotations")  # null in what the official client returns
_MOST_MESSAGES = 10_000


def read_messages(sent: Any) -> list[Message]:
    """Messages as a chat template takes them: role, content, and name if there is one. Raises InputError."""
    if not isinstance(sent, list) or len(sent) > _MOST_MESSAGES:
        raise refuse("messages", sent, f"a list of at most {_MOST_MESSAGES} messages")
    if not sent:
        raise InputError("empty_prompt", "there are no messages", field="messages", hint="send at least one")
    return [_message(entry, f"messages[{i}]") for i, entry in enumerate(sent)]


def _message(entry: Any, place: str) -> Message:
    if not isinstance(entry, dict):
        raise refuse(place, entry, "an object with role and content")
    fields = Fields(entry, place)
    role = fields.raw("role")
    if role in ("tool", "function") or any(entry.get(name) for name in ("tool_calls", "function_call")):
        raise InputError("not_supported", f"{place}: messages about tools are not read here", field=place)
    if role not in ROLES:
        raise refuse(f"{place}.role", role, f"one of {', '.join(ROLES)}")
    content = _content(fields.raw("content"), f"{place}.content")
    name = fields.text("name")
    for empty in _EMPTY:
        if value := fields.raw(empty):
            raise refuse(fields.place(empty), value, "nothing")
    fields.finish()
    # "developer" is OpenAI's later word for "system"; templates know the earlier one
    message = {"role": "system" if role == "developer" else role, "content": content}
    return message if name is None else message | {"name": name}


def _content(sent: Any, place: str) -> str:
    if isinstance(sent, str):
        return sent
    if not isinstance(sent, list):
        raise refuse(place, sent, "a string or a list of parts of type text")
    return "\n".join(_part(part, f"{place}[{i}]") for i, part in enumerate(sent))


def _part(part: Any, place: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text":
        came = part if kind is None else f"type {kind}"
        raise refuse(place, came, "an object of type text", "this model reads text only")
    text = part.get("text")
    if not isinstance(text, str):
        raise refuse(f"{place}.text", text, "a string")
    return text
