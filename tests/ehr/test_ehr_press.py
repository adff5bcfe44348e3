"""What pressing a MOTOR folder refuses, and that a network which looks ahead is among it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from safetensors.torch import save_file
from tutorial_records import CASE, GOLDEN, MODEL

from export.artifact import read_artifact
from export.ehr import EhrJob, load_network
from export.ehr_cases import EhrCase, plan_cases
from export.ehr_check import open_checked, recheck
from export.ehr_parity import GraphRunner, prefix_invariance
from export.ehr_source import backbone_digest, dump_ontology, read_ontology, read_source
from export.errors import CheckpointFileError, ConversionError, DataError, ExportError, HyperParameterError, ParityError
from export.golden.case import read_case

HAWK = GOLDEN.parent / "motor_v2_hawk.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tutorial checkpoint with its ontology, to damage."""
    copy: Path = shutil.copytree(GOLDEN, tmp_path / "checkpoint")
    (copy / "ontology.json").write_bytes(dump_ontology(CASE["ontology_parents"]))
    return copy


@pytest.fixture
def hawk(tmp_path: Path) -> Path:
    """The golden v2 network as a folder."""
    case, copy = read_case(HAWK), tmp_path / "hawk"
    copy.mkdir()
    save_file(case.group("state"), copy / "model.safetensors")
    text = json.dumps(case.config).replace('"inf"', "Infinity")
    (copy / "config.json").write_text(text)
    vocab = [{"type": "code", "code_string": f"C{i}", "weight": -1.0} for i in range(72)]
    (copy / "dictionary.msgpack").write_bytes(
        msgpack.packb({"vocab": vocab, "age_stats": {"age": {"mean": 1.0, "std": 1.0}}})
    )
    return copy


def job(folder: Path, **options: Any) -> EhrJob:
    return EhrJob(folder=folder, name="m", **options)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "dictionary.msgpack"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointFileError, match=f"{name} is missing"):
        load_network(job(folder))


@pytest.mark.parametrize(
    ("name", "content", "kind", "says"),
    [
        ("config.json", b"[]", HyperParameterError, "no JSON object"),
        ("config.json", b"{}", HyperParameterError, "transformer_config"),
        ("dictionary.msgpack", b"\xc1", CheckpointFileError, "no msgpack map"),
        ("dictionary.msgpack", msgpack.packb({"vocab": []}), CheckpointFileError, "vocab"),
        ("ontology.json", b"[1]", DataError, "no ontology"),
        ("model.safetensors", b"x" * 100, CheckpointFileError, "model.safetensors"),
    ],
)
def test_an_unusable_file_is_refused(
    folder: Path, name: str, content: bytes, kind: type[ExportError], says: str
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(kind, match=says):
        load_network(job(folder))


def test_a_dictionary_of_another_run_is_refused(folder: Path) -> None:
    document = msgpack.unpackb((folder / "dictionary.msgpack").read_bytes())
    document["vocab"] += [{"type": "code", "code_string": "one more", "weight": 0.0}]
    (folder / "dictionary.msgpack").write_bytes(msgpack.packb(document))
    with pytest.raises(HyperParameterError, match="129 entries, the network 128"):
        load_network(job(folder))


def test_another_model_s_tensors_are_no_motor_network(folder: Path, hawk: Path) -> None:
    shutil.copyfile(
        Path(__file__).parents[2] / "data" / "checkpoints" / "card_etth1_96_96.safetensors",
        folder / "model.safetensors",
    )
    with pytest.raises(CheckpointFileError, match="no MOTOR network"):
        load_network(job(folder))


def test_hawk_is_recognised_and_its_time_channels_are_refused_in_words(hawk: Path) -> None:
    assert read_source(hawk).layout == "v2"
    with pytest.raises(ConversionError, match="use_normed_ages"):
        load_network(job(hawk))
    config = json.loads((hawk / "config.json").read_text())
    config["transformer_config"]["use_normed_ages"] = False
    (hawk / "config.json").write_text(json.dumps(config))
    spec = load_network(job(hawk)).spec
    assert (spec.layout, spec.reach, spec.limit) == ("v2", 0, 2**15)


def test_adapters_lose_their_hold_when_any_part_of_the_backbone_changes(folder: Path) -> None:
    parents = read_ontology(folder / "ontology.json")
    before = backbone_digest(folder, parents)
    assert read_source(folder).backbone == before
    assert backbone_digest(folder, {**parents, "X": ["Y"]}) != before
    assert backbone_digest(folder, {**parents, "X": []}) == before
    for name in ("config.json", "dictionary.msgpack"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole + b" ")
        assert backbone_digest(folder, parents) != before
        (folder / name).write_bytes(whole)


def test_meds_codes_are_an_ontology() -> None:
    codes = Path(__file__).parents[2] / "data" / "ehr" / "metadata" / "codes.parquet"
    parents = read_ontology(codes)
    assert parents
    assert all(isinstance(code, str) and above for code, above in parents.items())


def test_a_stored_artifact_is_checked_again(ehr_home: Path) -> None:
    found = recheck(read_artifact(ehr_home / "models" / MODEL / "1"))
    assert found.holds
    assert [r.case.name for r in found.results][:3] == ["single-token", "batch-1", "batch-7"]
    assert found.invariant["max_abs"] <= found.invariant["tolerance"]


def test_a_graph_that_looks_ahead_is_not_stored(ehr_home: Path) -> None:
    artifact = read_artifact(ehr_home / "models" / MODEL / "1")
    checked, run = open_checked(artifact), GraphRunner(artifact.file("model.onnx"))
    cases = plan_cases(checked.reading.vocabulary, checked.spec, 16)[:3]

    class LooksAhead(GraphRunner):
        def __init__(self) -> None:
            """Uses the graph above."""

        def __call__(self, tensors: Any) -> Any:
            made = run(tensors)
            behind = [ages[last + 1 :].sum() for ages, last in zip(tensors["ages"], tensors["last"], strict=True)]
            return made | {"representation": made["representation"] + 1e-4 * np.sign(behind)[:, None]}

    assert prefix_invariance(cases, run, checked)["verdict"] == "ok"
    with pytest.raises(ParityError, match="looks ahead"):
        prefix_invariance(cases, LooksAhead(), checked)


def test_cases_are_the_same_every_time(ehr_home: Path) -> None:
    checked = open_checked(read_artifact(ehr_home / "models" / MODEL / "1"))
    first, second = (plan_cases(checked.reading.vocabulary, checked.spec, 16) for _ in range(2))
    assert [_plain(case) for case in first] == [_plain(case) for case in second]


def _plain(case: EhrCase) -> Any:
    return case.name, case.request, case.positions
