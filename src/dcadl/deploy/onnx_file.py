"""`to_onnx`: a trained model as an ONNX file, and pipelines of scikit-learn that hold one, by skl2onnx."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.atomic import write_atomically
from dcadl.deploy.onnx_graph import OPSET, Graph, add_program, label_array
from dcadl.deploy.operations import Program
from dcadl.deploy.translate import operations_of
from dcadl.estimators import (
    ADLSVM,
    DADL,
    DCADL,
    DPL,
    LCKSVD,
    LOOADL,
    SADL,
    ConvNet,
    PatchRidge,
    PCANet,
    RandomAtoms,
)

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

IR_VERSION = 8  # of the ONNX release that brought OPSET
DTYPES = ("float32", "uint8")
# What skl2onnx lets its own classifiers be asked for; all but the scores it does itself.
SKL2ONNX_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}
EXPORTED = (ADLSVM, DCADL, LOOADL, SADL, ConvNet, PatchRidge, PCANet, RandomAtoms)
REFUSED = (
    LCKSVD,
    DADL,
    DPL,
)  # known to skl2onnx all the same: `operations_of` says why they cannot be exported


def to_onnx(
    model: Classifier, path: str | os.PathLike[str], *, dtype: str = "float32", scale: float = 1.0
) -> None:
    """
    Write a fitted model as an ONNX file; outputs `label`, `scores`, `probabilities`.

    Parameters
    ----------
    model : a fitted classifier of this package
    path : the file to write
    dtype : {"float32", "uint8"}, default="float32"
        What the input, `pictures` of shape (n, *sample shape), holds.
    scale : float, default=1
        What pixels are multiplied by: the file gives what `model.predict(scale * X)` gives.
    """
    proto = onnx_model(operations_of(model, scale=scale), dtype)
    write_atomically(Path(path), proto.SerializeToString())


def onnx_model(program: Program, dtype: str = "float32") -> Any:
    """The program as an `onnx.ModelProto`, checked by ONNX's own checker."""
    onnx = _import_onnx()
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}; got {dtype!r}.")
    graph = Graph()
    names = ("label", "scores", "probabilities")
    for found, name in zip(add_program(graph, program, "pictures"), names):
        graph.rename(found, name)
    C = len(program.classes)
    types = (_element_type(label_array(program.classes)), onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT)
    values = [
        onnx.helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip(names, types, (["n"], ["n", C], ["n", C]))
    ]
    pictures = onnx.helper.make_tensor_value_info(
        "pictures", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n", *program.sample_shape]
    )
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "dcadl", [pictures], values, _tensors(graph)),
        producer_name="dcadl",
        producer_version=program.facts["dcadl_version"],
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.helper.set_model_props(proto, _metadata(program))
    onnx.checker.check_model(proto, full_check=True)
    return proto


def register_skl2onnx_converters() -> None:
    """Teach skl2onnx our classifiers, so that `skl2onnx.to_onnx(pipeline, X)` exports pipelines of them."""
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ValueError("Exporting pipelines needs skl2onnx: pip install 'dcadl[onnx]'.") from None
    for kind in (*EXPORTED, *REFUSED):
        update_registered_converter(
            kind,
            f"Dcadl{kind.__name__}",
            _output_types,
            _convert,
            options=SKL2ONNX_OPTIONS,
        )


def _output_types(operator: Any) -> None:
    """Label and probabilities, as skl2onnx expects of a classifier."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    labels = _skl2onnx_labels(np.asarray(operator.raw_operator.classes_))
    operator.outputs[0].type = (Int64TensorType if labels.dtype.kind == "i" else StringTensorType)([None])
    operator.outputs[1].type = FloatTensorType([None, len(labels)])


def _skl2onnx_labels(classes: np.ndarray) -> np.ndarray:
    """Integers or texts, nothing else: what is true or false, and 1.0 and 2.0, are integers there."""
    return classes.astype(np.int64) if classes.dtype.kind in "biuf" else classes


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from onnx import helper

    model = operator.raw_operator
    graph = Graph(scope.get_unique_operator_name("dcadl") + "_")
    program = operations_of(model)
    program = program._replace(classes=_skl2onnx_labels(program.classes))
    label, scores, probabilities = add_program(graph, program, operator.inputs[0].full_name)
    raw = scope.get_options(model, {"raw_scores": False})["raw_scores"]
    graph.rename(label, operator.outputs[0].full_name)
    graph.rename(scores if raw else probabilities, operator.outputs[1].full_name)
    for tensor in _tensors(graph):
        values = tensor.string_data if tensor.string_data else _values(tensor)
        container.add_initializer(tensor.name, tensor.data_type, list(tensor.dims), values)
    for node in graph.nodes:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        container.add_node(
            node.op_type, list(node.input), list(node.output), op_version=OPSET, name=node.name, **attributes
        )


def _values(tensor: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor).ravel().tolist()


def _tensors(graph: Graph) -> list[Any]:
    from onnx import helper, numpy_helper

    return [
        helper.make_tensor(name, _element_type(value), value.shape, [str(v).encode() for v in value.ravel()])
        if value.dtype.kind == "O"
        else numpy_helper.from_array(np.ascontiguousarray(value), name)
        for name, value in graph.constants.items()
    ]


def _element_type(value: np.ndarray) -> int:
    from onnx import TensorProto, helper

    return int(
        TensorProto.STRING if value.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(value.dtype)
    )


def _metadata(program: Program) -> dict[str, str]:
    """Everything as text, what has structure as JSON."""
    facts = {"classes": program.classes.tolist(), "temperature": program.temperature, **program.facts}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in facts.items()
    }


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
    except ImportError:
        raise ValueError("ONNX export needs the package onnx: pip install 'dcadl[onnx]'.") from None
    return onnx
