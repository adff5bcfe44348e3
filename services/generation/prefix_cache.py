"""Keys and values of past prompts, for prompts that begin alike.

Prompts are kept as a tree of blocks of `BLOCK` tokens: beginnings that several share are stored once. A lookup goes
down the tree block by block and ends with as many tokens of the next block as agree, so it finds the longest common
beginning to the token. Beyond the budget the blocks that were used least recently go, from the ends inwards.

What is copied out is bit for bit what computing it again would give: keys and values of a prompt do not depend on how
it was cut into chunks (of two tokens or more), nor on who else was running.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from services.generation.backend import Backend, Cached
from services.generation.sampling import Ids

BLOCK = 16

_Tokens = tuple[int, ...]


@dataclass(eq=False, slots=True)
class _Node:
    """A block: its tokens (fewer than BLOCK only where a prompt ended), their cache, and what came after them."""

    tokens: _Tokens
    cached: Cached | None
    parent: _Node | None
    children: dict[_Tokens, _Node] = field(default_factory=dict)


class PrefixCache:
    """Belongs to the model's thread.

    budget  tokens kept at most; 0: nothing is kept
    """

    def __init__(self, backend: Backend, budget: int) -> None:
        self._backend = backend
        self._budget = budget
        self._root = _Node((), None, None)
        self._recent: OrderedDict[_Node, None] = OrderedDict()  # a block is never less recent than what follows it
        self.held = 0

    def restore(self, slot: int, prompt: Ids, limit: int) -> int:
        """Copy the longest known beginning, of at most `limit` tokens, into a slot; how many tokens that were."""
        found, path = 0, []
        node = self._root
        while found < limit:
            wanted = tuple(prompt[found : min(found + BLOCK, limit)].tolist())
            child, agreed = _closest(node, wanted)
            if child is None or child.cached is None:
                break
            self._backend.write(slot, found, child.cached[:, :, :agreed])
            path.append(child)
            found += agreed
            if agreed < BLOCK:
                break
            node = child
        self._touch(path)
        return found

    def keep(self, slot: int, prompt: Ids, held: int) -> None:
        """Remember the first `held` tokens of a prompt, which a slot holds."""
        held = min(held, self._budget)
        node, path = self._root, []
        for start in range(0, held, BLOCK):
            stop = min(start + BLOCK, held)
            node = self._child(node, tuple(prompt[start:stop].tolist()), slot, start)
            path.append(node)
        self._touch(path)
        while self.held > self._budget:
            self._forget(next(iter(self._recent)))

    def _child(self, parent: _Node, tokens: _Tokens, slot: int, start: int) -> _Node:
        child, agreed = _closest(parent, tokens)
        if child is not None and agreed == len(tokens):
            return child
        if child is not None and agreed == len(child.tokens):
            self._forget(child)  # the end of a shorter prompt; the new block says all it said
        cached = self._backend.read(slot, start, start + len(tokens))
        node = parent.children[tokens] = _Node(tokens, cached, parent)
        self._recent[node] = None
        self.held += len(tokens)
        return node

    def _forget(self, node: _Node) -> None:
        del self._recent[node]
        self.held -= len(node.tokens)
        if node.parent is not None:
            del node.parent.children[node.tokens]

    def _touch(self, path: list[_Node]) -> None:
        for node in reversed(path):
            self._recent.move_to_end(node)


def _closest(node: _Node, wanted: _Tokens) -> tuple[_Node | None, int]:
    """The following block that agrees with the wanted tokens longest, and in how many."""
    exact = node.children.get(wanted)
    if exact is not None:
        return exact, len(wanted)
    best, most = None, 0
    for tokens, child in node.children.items():
        agreed = _agreement(tokens, wanted)
        if agreed > most:
            best, most = child, agreed
    return best, most


def _agreement(one: _Tokens, other: _Tokens) -> int:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))
