"""Cases of one node each: what ONNX Runtime (or, where it cannot run the node, the reference evaluator of the `onnx` package) answers.

case() runs the node and keeps inputs and outputs; write() puts all cases in one binary file, little-endian, read by cases.h:
  file    "QOPS1", cases until the end
  case    op, label, flags (u8: 1 = infer with numbers only), attributes, inputs, outputs
  text    u16 length, bytes;    list  u16 count, items
  attribute  name, kind (u8 'i' i64 | 'f' f64 | 's' text | 'I' list of i64 | 'F' list of f64 | 'S' list of texts | 'd' element type as text), value
  input      u8: 0 = absent, 1 = run-time value, 2 = constant; tensor unless absent
  output     f64 relative, f64 absolute tolerance; tensor
  tensor     element type, rank u8, dims i64, bytes
"""

import struct

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

DTYPES = {"bool": "boolean", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
          "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
IRREGULAR = {"lrn": "LRN", "isnan": "IsNaN", "isinf": "IsInf", "matmul": "MatMul", "gather_nd": "GatherND", "scatter_nd": "ScatterND", "lstm": "LSTM",
             "gru": "GRU", "matmul_integer": "MatMulInteger", "rms_normalization": "RMSNormalization", "top_k": "TopK", "reduce_l1": "ReduceL1",
             "reduce_l2": "ReduceL2", "prelu": "PRelu", "rnn": "RNN", "not": "Not", "non_zero": "NonZero"}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
cases = []
onnxruntime.set_default_logger_severity(4)


def onnx_name(op):
    return IRREGULAR.get(op, "".join(part.capitalize() for part in op.split("_")))


def run(op, inputs, attributes, outputs, opset, oracle):
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(inputs)]
    outs = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(onnx_name(op), names, outs, **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, inputs) if x is not None]
    unknown = [onnx.ValueInfoProto(name=n) for n in outs]
    model = helper.make_model(helper.make_graph([node], "g", infos, unknown), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    feed = {n: x for n, x in zip(names, inputs) if x is not None}
    if oracle == "ort":
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed), "ort"
        except Exception:  # most often a type that it has no kernel for
            pass
    return ReferenceEvaluator(model).run(None, feed), "reference"


def case(op, *inputs, const=(), outputs=1, terms=0, ulps=4, numbers_only=False, opset=21, oracle="ort", in_onnx=None, onnx_inputs=None, expect=None, label="",
         **attributes):
    """`const`: which inputs are constants. `terms`: how many products of input magnitudes are summed (for the tolerance). `in_onnx`: attributes
    for the oracle where they differ from ours; `expect`: the answer itself, where a specification gives it."""
    inputs = [x if x is None else np.asarray(x) for x in inputs]
    if expect is None:
        wanted, by = run(op, onnx_inputs if onnx_inputs is not None else inputs, attributes if in_onnx is None else in_onnx, outputs, opset, oracle)
    else:
        wanted, by = expect, "given"
    magnitude = np.prod([max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64))))) for x in inputs
                         if x is not None and x.size and x.dtype.name in EPS] or [1.0])
    label = label or f"case {len(cases)} ({by})"
    out = bytearray()
    out += text(op) + text(label) + bytes([1 if numbers_only else 0])
    out += struct.pack("<H", len(attributes))
    for name, value in sorted(attributes.items()):
        out += text(name) + attribute(value)
    out += struct.pack("<H", len(inputs))
    for k, x in enumerate(inputs):
        out += b"\0" if x is None else bytes([2 if k in const else 1]) + tensor(x)
    out += struct.pack("<H", len(wanted))
    for y in wanted:
        y = np.asarray(y)
        eps = EPS.get(y.dtype.name, 0.0)
        out += struct.pack("<dd", ulps * eps, terms * eps * magnitude) + tensor(y)
    cases.append(bytes(out))


class Type(str):
    """An attribute that is an element type."""


def attribute(value):
    if isinstance(value, Type):
        return b"d" + text(value)
    if isinstance(value, (bool, int)):
        return b"i" + struct.pack("<q", int(value))
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + text(value)
    if value and isinstance(value[0], str):
        return b"S" + struct.pack("<H", len(value)) + b"".join(map(text, value))
    if value and isinstance(value[0], float):
        return b"F" + struct.pack(f"<H{len(value)}d", len(value), *value)
    return b"I" + struct.pack(f"<H{len(value)}q", len(value), *value)


def text(s):
    s = s.encode()
    return struct.pack("<H", len(s)) + s


def tensor(x):
    return text(DTYPES[x.dtype.name]) + struct.pack(f"<B{x.ndim}q", x.ndim, *x.shape) + np.ascontiguousarray(x).tobytes()


def write(path):
    with open(path, "wb") as f:
        f.write(b"QOPS1" + b"".join(cases))
    print(path, len(cases), "cases,", sum(map(len, cases)), "bytes")
