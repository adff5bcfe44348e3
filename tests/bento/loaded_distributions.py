"""Prints, as JSON, what a serving process loads: `python loaded_distributions.py`, run in a bento's source folder.

served         what a worker over the store serves
imports        per third-party package our loaded modules import at their top: the distributions that may provide it
version_file   where the server's own version was read from
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
OURS = ("services", "models", "export", "pressroom")


async def load_everything() -> list[str]:
    """Start a worker's repository with whatever the store holds; the tags it serves."""
    import services.gateway
    from services.core.settings import Settings
    from services.core.worker import Worker

    gateway = services.gateway.Gateway
    worker = Worker(gateway.families, Settings(grpc_port=0))
    await worker.start()
    while not worker.repository.loaded:
        await asyncio.sleep(0.02)
    served = [model.artifact.tag for model in worker.repository.models()]
    await worker.stop()
    return served


def imported() -> set[str]:
    """Top-level packages that the loaded modules of ours import when they are loaded themselves."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OURS and module.__file__:
            for node in ast.parse(Path(module.__file__).read_text()).body:
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.partition(".")[0])
    return found - set(OURS) - set(sys.stdlib_module_names)


def main() -> None:
    served = asyncio.run(load_everything())
    owners = packages_distributions()
    found = {
        "served": served,
        "imports": {top: sorted(owners.get(top, [])) for top in sorted(imported())},
        "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
        "version_file": sys.modules["services.core.version"].__file__,
        "service_file": sys.modules["services.gateway"].__file__,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
