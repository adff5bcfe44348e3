"""How long one artifact takes from the store to its first answer, measured in a process of its own.

    python -m benchmarks.growth_load NAME       prints {"verify": s, "load": s, "warm": s}

verify  the manifest is read and every file's digest checked
load    the family makes a model of it: sessions, tokenizer, tables
warm    the example is answered, which is when it becomes ready
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

from benchmarks.server import ROOT


def load_times(name: str, environment: dict[str, str]) -> dict[str, float]:
    """Seconds of each part, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.growth_load", name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _load(name: str) -> dict[str, float]:
    from export.artifact import open_artifact
    from services.core.settings import load_settings
    from services.gateway import Gateway

    gateway: Any = Gateway
    families = {family.name: family for family in gateway.families}
    settings = load_settings().values
    began = time.perf_counter()
    artifact = open_artifact(name)
    verified = time.perf_counter()
    model = families[artifact.manifest.family].load(artifact, settings)
    loaded = time.perf_counter()
    await model.warm_up()
    warm = time.perf_counter()
    await model.close()
    return {"verify": verified - began, "load": loaded - verified, "warm": warm - loaded}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_load(sys.argv[1]))))
