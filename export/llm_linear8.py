"""An int8 graph whose layers may run by kernels of ours: MatMulNBits -> Linear8, which is defined as MatMulNBits.

Linear8 is a function of the model: its body is the MatMulNBits it stands for. A session that knows the op (native/,
where it was built and the processor has AVX-512 VNNI) runs it; any other takes the body, so one file serves everywhere.
The two round alike; only the order of float32 sums differs.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from models.packed.library import DOMAIN, LINEAR8, VERSION

CONTRIB = "com.microsoft"
WHOLE = 64  # blocks of a multiple of so many inputs are taken
_NAMES = {"K": "in_features", "N": "out_features", "block_size": "block_size"}
_FIXED = {"bits": 8, "accuracy_level": 4}  # activations in bytes, too


def use_linear8(model: onnx.ModelProto) -> int:
    """Change every layer that Linear8 can stand for, in place; returns how many."""
    changed = 0
    for node in model.graph.node:
        settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "MatMulNBits" and len(node.input) == 3 and _fits(settings):
            node.CopyFrom(_linear8(node, settings))
            changed += 1
    if changed:
        model.functions.append(_definition())
        model.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    return changed


def _fits(settings: dict[str, int]) -> bool:
    fixed = all(settings.get(name) == value for name, value in _FIXED.items())
    return fixed and settings["block_size"] % WHOLE == 0


def _linear8(node: NodeProto, settings: dict[str, int]) -> NodeProto:
    renamed: dict[str, Any] = {ours: settings[theirs] for theirs, ours in _NAMES.items()}
    return helper.make_node(LINEAR8, list(node.input), list(node.output), name=node.name, domain=DOMAIN, **renamed)


def _definition() -> FunctionProto:
    body = helper.make_node("MatMulNBits", ["X", "bytes", "scales"], ["Y"], domain=CONTRIB)
    body.attribute.extend(helper.make_attribute(name, value) for name, value in _FIXED.items())
    body.attribute.extend(
        AttributeProto(name=theirs, ref_attr_name=ours, type=AttributeProto.INT) for theirs, ours in _NAMES.items()
    )
    opset = [helper.make_opsetid(CONTRIB, 1)]
    names = list(_NAMES.values())
    return helper.make_function(DOMAIN, LINEAR8, ["X", "bytes", "scales"], ["Y"], [body], opset, attributes=names)
