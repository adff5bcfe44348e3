"""A stand-in for the gated public MOTOR model: the same shape (143M parameters), random weights; press it, time it.

python scripts/motor_t_base.py make FOLDER       write config.json, model.safetensors, dictionary.msgpack (570 MB)
pressroom export ehr FOLDER --name motor-t-base
python scripts/motor_t_base.py measure           memory and CPU time of the pressed artifact, one patient at a time
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

import msgpack
import numpy as np
import psutil
from safetensors.numpy import save_file

HIDDEN, WIDE, LAYERS, HEADS, WINDOW = 768, 3072, 12, 12, 496
CODES, TASKS, RANK, BINS = 65_536, 8_192, 512, 8
PARAMETERS = 142_703_104
TOWER = "EHRTransformer/~/TransformerFeaturizer/~/Transformer/~/"
TASK = "EHRTransformer/~/SurvivalCLMBRTask/"
YEAR = 525_600.0  # minutes


def make(folder: Path) -> None:
    """Write the folder."""
    random = np.random.default_rng(143)

    def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (random.standard_normal(shape, dtype=np.float32) * 0.02).astype(np.float32)

    ones, zeros = (lambda *s: np.ones(s, np.float32)), (lambda *s: np.zeros(s, np.float32))
    project, joined = 3 * HIDDEN + WIDE, HIDDEN + WIDE
    state = {f"{TOWER}embed/embeddings": normal(CODES, HIDDEN)}
    state |= {f"{TOWER}rms_norm/scale": ones(HIDDEN), f"{TOWER}rms_norm_1/scale": ones(HIDDEN)}
    for i in range(LAYERS):
        block = f"{TOWER}loop_{i}/TransformerBlock/~/"
        state |= {f"{block}rms_norm/scale": ones(HIDDEN)}
        state |= {f"{block}linear/w": normal(HIDDEN, project), f"{block}linear/b": zeros(project)}
        state |= {f"{block}linear_1/w": normal(joined, HIDDEN), f"{block}linear_1/b": zeros(HIDDEN)}
    state |= {f"{TASK}~/linear/w": normal(HIDDEN, BINS * RANK), f"{TASK}~/linear/b": zeros(BINS * RANK)}
    rates = np.full((TASKS, 1), np.log2(1e-7), np.float32)  # a minute
    state |= {f"{TASK}code_weight": normal(TASKS, RANK), f"{TASK}code_weight_bias": rates}
    assert sum(array.size for array in state.values()) == PARAMETERS
    names = [f"CODE/{i}" for i in range(CODES)]
    sizes = {"vocab_size": CODES, "hidden_size": HIDDEN, "intermediate_size": WIDE, "n_heads": HEADS}
    sizes |= {"n_layers": LAYERS, "rotary": "per_head", "attention_width": WINDOW, "is_hierarchical": True}
    starts = [YEAR * t for t in (0, 0.1, 0.25, 0.5, 1, 2, 4, 8)]
    task = {"type": "survival_clmbr", "num_codes": TASKS, "dim": RANK + 1, "time_bins": starts}
    task["survival_dict"] = {"codes": names[:TASKS], "time_bins": starts}
    vocab = [{"type": "code", "code_string": name, "weight": -1.0} for name in names]
    dictionary = {"vocab": vocab, "is_hierarchical": True, "age_stats": {"mean": 1.5e9, "std": 8e8}}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"transformer": sizes | {"with_age_beta": False}, "task": task}))
    (folder / "dictionary.msgpack").write_bytes(msgpack.packb(dictionary))


def measure(name: str, rounds: int) -> None:
    """Print the resident memory of a process that serves the artifact, and CPU times by length of history."""
    from export.artifact import open_artifact
    from services.core.call import Call
    from services.core.settings import Settings
    from services.ehr import ROUTE, EhrFamily

    async def run() -> None:
        before = psutil.Process().memory_info().rss
        model = EhrFamily().load(open_artifact(name), Settings(max_delay_ms=0))
        await model.warm_up()
        after = psutil.Process().memory_info().rss
        print(f"loaded and warm: {(after - before) / 1e6:.0f} MB on top of {before / 1e6:.0f} MB")
        for length in (1, 64, 512, 1024, 2048, 6000):
            years = [1950 + i * 60 // length for i in range(length)]
            times = [f"{year}-{1 + i % 12:02d}-{1 + i % 28:02d}T01:00:00" for i, year in enumerate(years)]
            events = [{"time": time, "code": f"CODE/{7 * i}"} for i, time in enumerate(times)]
            request = {"prediction_time": "2015-01-01", "tasks": ["CODE/0"], "horizons_days": [365.0]}
            request["patients"] = [{"birth": "1945-01-01", "events": events}]
            taken = []
            for _ in range(rounds if length < 2048 else 1):
                began = time.process_time()
                answer = await model.answer(request, Call(ROUTE, "http", "measure"))
                taken.append(time.process_time() - began)
            used = answer["patients"][0]["events"]["used"]
            rss = psutil.Process().memory_info().rss / 1e6
            print(f"{used:5d} positions: {statistics.median(taken) * 1e3:8.0f} ms of one core, memory {rss:.0f} MB")
        await model.close()

    asyncio.run(run())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("make").add_argument("folder", type=Path)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("--name", default="motor-t-base")
    measuring.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    make(given.folder) if given.verb == "make" else measure(given.name, given.rounds)
