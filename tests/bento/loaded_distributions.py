"""Prints, as JSON, what a serving process loads: `python loaded_distributions.py`, run in a bento's source folder.

distributions  installed distributions that any loaded module belongs to
version_file   where the server's own version was read from
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import distribution, packages_distributions

sys.path.insert(0, ".")


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


def main() -> None:
    served = asyncio.run(load_everything())
    owners = packages_distributions()
    loaded = {name.partition(".")[0] for name in sys.modules}
    found = {
        "served": served,
        "distributions": sorted({d.lower().replace("_", "-") for top in loaded for d in owners.get(top, [])}),
        "version_file": str(distribution("pressroom").locate_file("")),
        "service_file": sys.modules["services.gateway"].__file__,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
