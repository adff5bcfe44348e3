"""Risks from health records, and a survival curve: `python examples/ehr_risk.py [--url URL] [--at DATE] [--out FILE]`.

Needs a running server that serves a record model, pyarrow, pandas and matplotlib. The records are synthetic.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draw into a file, no display needed
import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pressroom_client import Client

RECORDS = Path(__file__).resolve().parents[1] / "data" / "ehr" / "data" / "held_out.parquet"
TASKS = ["death", "ischemic_heart_disease", "type_2_diabetes"]


def main() -> None:
    parser = argparse.ArgumentParser(description="What may happen to three synthetic patients.")
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="http://host:port or grpc://host:port")
    parser.add_argument("--model", default="motor-synthea")
    parser.add_argument("--at", default="2015-01-01", help="predict as of this date; nothing later is read")
    parser.add_argument("--out", type=Path, default=Path("out/ehr_risk.png"))
    options = parser.parse_args()

    records = patients_alive(pq.read_table(RECORDS), options.at, 3)
    with Client(options.url) as client:
        result = client.predict_time_to_event(records, options.at, tasks=TASKS, model=options.model)

    print(f"{result.model}:{result.version} {result.digest}")
    print(result.frame.pivot(index=["id", "task"], columns="horizon_days", values="risk").round(3))
    counts = result[0].events
    print(f"patient {result[0].id}: {counts.used} events read, {counts.dropped_future} later ones left out")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    result[0].plot(axes)
    figure.savefig(options.out)
    print(f"drawn to {options.out}")


def patients_alive(records: pa.Table, at: str, count: int) -> pa.Table:
    """The first subjects who were seen before and after a date: a record that has ended is not asked about."""
    last = records.group_by("subject_id").aggregate([("time", "min"), ("time", "max")])
    moment = pc.strptime(pa.scalar(at), "%Y-%m-%d", "us")
    seen = pc.and_(pc.less(last["time_min"], moment), pc.greater(last["time_max"], moment))
    return records.filter(pc.is_in(records["subject_id"], last.filter(seen)["subject_id"][:count]))


if __name__ == "__main__":
    main()
