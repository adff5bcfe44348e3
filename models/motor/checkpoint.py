"""MOTOR's published state dicts: which layout it is, and which tensor is which."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from models import statedict
from models.motor.config import Layout, MotorConfig
from models.motor.hawk import WIDTH
from models.statedict import Axis, Slot, Translation, linear

HINT = "check the configuration named above, and that this is a femr MOTOR checkpoint"
_HAIKU = "EHRTransformer/~/"
_TOWER = f"{_HAIKU}TransformerFeaturizer/~/Transformer/~/"
_TASK = f"{_HAIKU}SurvivalCLMBRTask/"
_OLD_NAMES = {
    "task_model.task_embedding.weight": "task_model.task_layer.weight",
    "task_model.task_embedding_bias.weight": "task_model.task_layer.bias",
}


def layout_of(names: Mapping[str, Tensor]) -> Layout | None:
    """The layout these tensor names belong to; None: none of them."""
    if any(".hawk_module." in name for name in names):
        return "v2"
    if any(name.startswith(_HAIKU) for name in names):
        return "v0"
    return "v1" if "transformer.in_norm.weight" in names or "transformer.in_norm.scale" in names else None


def translate(state: Mapping[str, Tensor], config: MotorConfig) -> Translation:
    """Published tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    slots, named = (_haiku_slots(config), dict(state)) if config.layout == "v0" else (_slots(config), _modern(state))
    taken = statedict.translate(named, slots, HINT)
    return Translation(_split(taken.state, config), taken.dropped)


def _modern(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names of early 0.2 releases in their later form (norms had a `scale`, the task layer was an embedding)."""
    found = {}
    for name, tensor in state.items():
        new = _OLD_NAMES.get(name, name)
        new = f"{new.removesuffix('scale')}weight" if new.endswith("norm.scale") else new
        found[new] = tensor.squeeze(-1) if name == "task_model.task_embedding_bias.weight" else tensor
    return found


def _split(state: dict[str, Tensor], config: MotorConfig) -> dict[str, Tensor]:
    """One projection for feed-forward and attention -> two; v1 has the feed-forward columns first, v0 last."""
    made = {}
    attention = 3 * config.hidden
    for name, tensor in state.items():
        if ".project." not in name:
            made[name] = tensor.T.contiguous() if _is_input_major(name, config) else tensor
            continue
        rows = tensor.T if _is_input_major(name, config) else tensor
        if len(rows) == len(rows[:-attention]) + attention and not _recurrent(name, config):
            wide, qkv = (
                (rows[attention:], rows[:attention])
                if config.layout == "v0"
                else (rows[:-attention], rows[-attention:])
            )
            made[name.replace(".project.", ".qkv.")] = qkv.contiguous()
        else:
            wide = rows
        made[name.replace(".project.", ".expand.")] = wide.contiguous()
    return {
        name: tensor.squeeze(-1) if name == "head.task.bias" and tensor.ndim == 2 else tensor
        for name, tensor in made.items()
    }


def _is_input_major(name: str, config: MotorConfig) -> bool:
    """Haiku stores affine maps as [inputs, outputs]."""
    maps = (".project.weight", ".contract.weight", "head.binned.weight")
    return config.layout == "v0" and name.endswith(maps)


def _recurrent(name: str, config: MotorConfig) -> bool:
    return config.layout == "v2" and int(name.split(".")[1]) % 2 == 0


def _sizes(config: MotorConfig) -> tuple[Axis, Axis, Axis, Axis, Axis]:
    """Hidden, projection, contraction, binned features, tasks."""
    wide = config.intermediate * (2 if config.activation == "swiglu" else 1)
    return (
        (config.hidden, "hidden_size"),
        (3 * config.hidden + wide, "hidden_size, intermediate_size or hidden_act"),
        (config.hidden + config.intermediate, "hidden_size or intermediate_size"),
        (config.bins * config.rank, "time_bins or final_layer_size"),
        (len(config.tasks), "pretraining_task_info"),
    )


def _slots(config: MotorConfig) -> list[Slot]:
    d, project, joined, binned, tasks = _sizes(config)
    rank: Axis = (config.rank, "final_layer_size")
    embed = "embed_bag" if config.hierarchical else "embed"
    slots = [
        Slot(f"transformer.{embed}.weight", "embed", ((config.vocab_size, "vocab_size"), d)),
        Slot("transformer.in_norm.weight", "norm_in.weight", (d,)),
        Slot("transformer.out_norm.weight", "norm_out.weight", (d,)),
    ]
    for i in range(config.layers):
        official, ours = f"transformer.layers.{i}", f"blocks.{i}"
        recurrent = config.layout == "v2" and i % 2 == 0
        wide: Axis = (project[0] - 3 * config.hidden, project[1]) if recurrent else project
        slots.append(Slot(f"{official}.norm.weight", f"{ours}.norm.weight", (d,)))
        slots += _maybe_biased(f"{official}.input_proj", f"{ours}.project", wide, d, config.bias)
        slots += _maybe_biased(f"{official}.output_proj", f"{ours}.contract", d, joined, config.bias)
        if recurrent:
            slots += _hawk_slots(f"{official}.hawk_module", f"{ours}.hawk", d, config)
    slots += linear("task_model.final_layer", "head.binned", binned, d)
    slots.append(Slot("task_model.task_layer.weight", "head.task.weight", (tasks, rank)))
    slots.append(Slot("task_model.task_layer.bias", "head.task.bias", (tasks,), infinite=True))
    if config.layout == "v2":
        slots.append(Slot("task_model.norm.weight", "head.norm.weight", (rank,)))
        bins: Axis = (config.bins, "time_bins")
        slots.append(Slot("task_model.task_time_bias", "head.time_bias", ((1, ""), bins, tasks)))
    return slots


def _maybe_biased(official: str, ours: str, out: Axis, inp: Axis, bias: bool) -> list[Slot]:
    return linear(official, ours, out, inp)[: 2 if bias else 1]


def _hawk_slots(official: str, ours: str, d: Axis, config: MotorConfig) -> list[Slot]:
    heads: Axis = (config.heads, "n_heads")
    inner: Axis = (config.hidden // config.heads, "hidden_size or n_heads")
    slots = [
        Slot(f"{official}.conv_1d.w", f"{ours}.kernel", ((WIDTH, ""), d)),
        Slot(f"{official}.conv_1d.b", f"{ours}.kernel_bias", (d,)),
        Slot(f"{official}.rg_lru.a_param", f"{ours}.decay", (d,)),
    ]
    for name, part in (("linear_x", "value"), ("linear_y", "gate"), ("linear_out", "out")):
        slots += linear(f"{official}.{name}", f"{ours}.{part}", d, d)
    for name, part in (("a_gate", "decay_gate"), ("input_gate", "input_gate")):
        slots.append(Slot(f"{official}.rg_lru.{name}.w", f"{ours}.{part}.weight", (heads, inner, inner)))
        slots.append(Slot(f"{official}.rg_lru.{name}.b", f"{ours}.{part}.bias", (heads, inner)))
    return slots


def _haiku_slots(config: MotorConfig) -> list[Slot]:
    d, project, joined, binned, tasks = _sizes(config)
    aged: Axis = (config.hidden + 2 * config.time_channels, "hidden_size or with_age_beta")
    slots = [
        Slot(f"{_TOWER}embed/embeddings", "embed", ((config.vocab_size, "vocab_size"), d)),
        Slot(f"{_TOWER}rms_norm/scale", "norm_in.weight", (d,)),
        Slot(f"{_TOWER}rms_norm_1/scale", "norm_out.weight", (d,)),
        Slot(f"{_TASK}~/linear/w", "head.binned.weight", (d, binned)),
        Slot(f"{_TASK}~/linear/b", "head.binned.bias", (binned,)),
        Slot(f"{_HAIKU}SurvivalCLMBRTask/code_weight", "head.task.weight", (tasks, (config.rank, "dim - 1"))),
        Slot(f"{_HAIKU}SurvivalCLMBRTask/code_weight_bias", "head.task.bias", (tasks, (1, "")), infinite=True),
    ]
    for i in range(config.layers):
        official, ours = f"{_TOWER}loop_{i}/TransformerBlock/~/", f"blocks.{i}"
        slots += [
            Slot(f"{official}rms_norm/scale", f"{ours}.norm.weight", (d,)),
            Slot(f"{official}linear/w", f"{ours}.project.weight", (aged, project)),
            Slot(f"{official}linear/b", f"{ours}.project.bias", (project,)),
            Slot(f"{official}linear_1/w", f"{ours}.contract.weight", (joined, d)),
            Slot(f"{official}linear_1/b", f"{ours}.contract.bias", (d,)),
        ]
    return slots
