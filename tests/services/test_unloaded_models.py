"""An unloaded model leaves nothing behind, though the collector of a server comes by seldom."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

from served_model import Doubling

from services.core.control import Command
from services.core.repository import Repository
from services.core.settings import Settings


async def test_a_model_that_holds_itself_in_a_circle_is_freed_with_the_command() -> None:
    family: Any = SimpleNamespace(name="doubling", tasks=())
    repository = Repository([family], Settings())
    model = Doubling(Settings())  # its batcher runs a method of its own
    repository._models["doubling"] = {"1": model}
    gone = weakref.ref(model)
    del model
    gc.disable()
    try:
        await repository.command(Command(operation="unload", name="doubling"))
        assert gone() is None
    finally:
        gc.enable()
