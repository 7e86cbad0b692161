#!/usr/bin/env python3
"""Makes data/cases: small ONNX models of several operator sets, with inputs and the outputs that ONNX Runtime (where it is too new for a set: the
reference evaluator of the package onnx) computes for them. Needs the packages onnx, onnxruntime and numpy. Run in this folder."""
import pathlib
import shutil

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).parent / "data" / "cases"
rng = np.random.default_rng(7)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def info(name, array_or_type, shape):
    kind = array_or_type if isinstance(array_or_type, int) else h.np_dtype_to_tensor_dtype(array_or_type.dtype)
    return h.make_tensor_value_info(name, kind, shape)


def run(model, feeds):
    try:
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as error:  # sets before 7
        print("  onnxruntime:", str(error)[:100])
        from onnx.reference import ReferenceEvaluator
        return ReferenceEvaluator(model).run(None, feeds)


def case(name, opset, nodes, feeds, shapes, outputs, initializers=(), expected=None, ir=8, post=None):
    """shapes: input name -> shape with symbols; outputs: name -> (type, shape)."""
    graph = h.make_graph(nodes, name, [info(k, v, shapes[k]) for k, v in feeds.items()],
                         [info(k, t, s) for k, (t, s) in outputs.items()], list(initializers))
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], producer_name="quern-tests", ir_version=ir)
    results = expected if expected is not None else run(model, feeds)
    folder = ROOT / name
    folder.mkdir(parents=True)
    if post:
        model = post(model, folder)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for k, v in feeds.items():
        np.save(folder / f"in.{k}.npy", v)
    for k, v in zip(outputs, results):
        np.save(folder / f"out.{k}.npy", v)


shutil.rmtree(ROOT, ignore_errors=True)
n = h.make_node
x23 = f32(2, 3)

case("mlp_13", 13,
     [n("Gemm", ["x", "w1", "b1"], ["h"], transB=1), n("Relu", ["h"], ["a"], name="act"), n("MatMul", ["a", "w2"], ["l"]),
      n("Add", ["l", "b2"], ["z"]), n("Softmax", ["z"], ["y"], axis=-1)],
     {"x": f32(3, 4)}, {"x": ["batch", 4]}, {"y": (T.FLOAT, ["batch", 2])},
     [constant("w1", f32(5, 4)), constant("b1", f32(5)), constant("w2", f32(5, 2)), constant("b2", f32(2))])

# Softmax over everything from axis 1 on, as sets before 13 have it; and over the last axis, where both agree.
case("softmax_11", 11, [n("Softmax", ["x"], ["y"]), n("Softmax", ["x"], ["z"], axis=2), n("LogSoftmax", ["x"], ["l"], axis=0)],
     {"x": f32(2, 3, 4)}, {"x": ["n", 3, "t"]}, {k: (T.FLOAT, ["n", 3, "t"]) for k in "yzl"})

case("slice_9", 9, [n("Slice", ["x"], ["y"], starts=[1, -3], ends=[1000, 3], axes=[0, 2])],
     {"x": f32(3, 2, 4)}, {"x": [3, 2, 4]}, {"y": (T.FLOAT, [2, 2, 2])})

case("pad_10", 10, [n("Pad", ["x"], ["y"], pads=[0, 1, 2, 0], value=1.5), n("Pad", ["x"], ["e"], pads=[1, 0, 0, 1], mode="edge")],
     {"x": x23}, {"x": ["r", 3]}, {"y": (T.FLOAT, None), "e": (T.FLOAT, None)})

case("axes_12", 12,
     [n("Unsqueeze", ["x"], ["u"], axes=[0, 3]), n("ReduceSum", ["u"], ["s"], axes=[2], keepdims=0), n("Squeeze", ["s"], ["y"], axes=[0, 2]),
      n("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1), n("ReduceMax", ["x"], ["all"], keepdims=0)],
     {"x": x23}, {"x": ["r", 3]}, {"y": (T.FLOAT, ["r"]), "m": (T.FLOAT, ["r", 1]), "all": (T.FLOAT, [])})

case("clip_6", 10, [n("Clip", ["x"], ["y"], min=-0.5, max=0.25), n("Clip", ["x"], ["z"], max=0.0)],
     {"x": x23}, {"x": [2, "c"]}, {"y": (T.FLOAT, [2, "c"]), "z": (T.FLOAT, [2, "c"])})

case("clip_13_without_minimum", 13, [n("Clip", ["x", "", "hi"], ["y"])], {"x": x23}, {"x": [2, "c"]}, {"y": (T.FLOAT, [2, "c"])},
     [constant("hi", np.float32(0.1))])

case("dropout_identity_12", 12, [n("Dropout", ["x"], ["d"]), n("Identity", ["d"], ["i"]), n("Neg", ["i"], ["y"]), n("Identity", ["y"], ["z"])],
     {"x": x23}, {"x": ["a b", "a-b"]}, {"i": (T.FLOAT, ["a b", "a-b"]), "y": (T.FLOAT, None), "z": (T.FLOAT, None)})

case("split_9", 9, [n("Split", ["x"], ["a", "b"], axis=1, split=[1, 3]), n("Split", ["x"], ["c", "d"], axis=0)],
     {"x": f32(2, 4)}, {"x": ["n", 4]}, {"a": (T.FLOAT, None), "b": (T.FLOAT, None), "c": (T.FLOAT, None), "d": (T.FLOAT, None)})

case("topk_9", 9, [n("TopK", ["x"], ["v", "i"], k=2)], {"x": f32(2, 4)}, {"x": [2, 4]}, {"v": (T.FLOAT, [2, 2]), "i": (T.INT64, [2, 2])})

case("upsample_9", 9, [n("Upsample", ["x", "s"], ["y"], mode="nearest")], {"x": f32(1, 1, 2, 3)}, {"x": ["n", 1, 2, 3]}, {"y": (T.FLOAT, None)},
     [constant("s", np.array([1, 1, 2, 2], np.float32))])

case("cnn_9", 9,
     [n("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), n("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
      n("Relu", ["n"], ["r"]), n("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), n("GlobalAveragePool", ["p"], ["q"]),
      n("Flatten", ["q"], ["y"])],
     {"x": f32(2, 1, 6, 6)}, {"x": ["n", 1, "h", "w"]}, {"y": (T.FLOAT, ["n", 2])},
     [constant("w", f32(2, 1, 3, 3)), constant("g", f32(2)), constant("b", f32(2)), constant("m", f32(2)), constant("v", np.abs(f32(2)))])

# [batch, time, 6] -> [batch, time, 2, 3] through sizes that the graph itself computes.
case("shape_chain_17", 17,
     [n("Shape", ["x"], ["s"]), n("Constant", [], ["zero"], value_int=0), n("Constant", [], ["one"], value=constant("", np.int64(1))),
      n("Gather", ["s", "zero"], ["n"]), n("Gather", ["s", "one"], ["t"]), n("Constant", [], ["first"], value_ints=[0]),
      n("Unsqueeze", ["n", "first"], ["n1"]), n("Unsqueeze", ["t", "first"], ["t1"]), n("Constant", [], ["heads"], value_ints=[2, -1]),
      n("Concat", ["n1", "t1", "heads"], ["to"], axis=0), n("Reshape", ["x", "to"], ["r"]), n("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),
      n("Concat", ["t1", "t1"], ["square"], axis=0), n("ConstantOfShape", ["square"], ["ones"], value=constant("", np.array([1], np.float32)))],
     {"x": f32(2, 5, 6)}, {"x": ["batch", "time", 6]}, {"y": (T.FLOAT, ["batch", 2, "time", 3]), "ones": (T.FLOAT, None)})

case("old_broadcast_6", 6, [n("Add", ["x", "b"], ["a"], broadcast=1, axis=1), n("Mul", ["a", "c"], ["y"], broadcast=1)],
     xb := {"x": f32(2, 3, 2)}, {"x": ["n", 3, 2]}, {"y": (T.FLOAT, ["n", 3, 2])},
     [constant("b", b3 := f32(3)), constant("c", c2 := f32(2))], expected=[(xb["x"] + b3[None, :, None]) * c2])

case("old_cast_reshape_4", 4, [n("Reshape", ["x"], ["r"], shape=[3, 2]), n("Cast", ["r"], ["y"], to="INT32")],
     {"x": x23}, {"x": [2, 3]}, {"y": (T.INT32, [3, 2])}, expected=[x23.reshape(3, 2).astype(np.int32)])


def typed(name, kind, dims, values):
    return h.make_tensor(name, kind, dims, values)


# Every typed field of a tensor: float_data, int32_data (also as bits of halves), int64_data, double_data, uint64_data.
types = [("f", T.FLOAT, [0.5, -1.25]), ("i", T.INT32, [3, -4]), ("l", T.INT64, [1 << 40, -1]), ("d", T.DOUBLE, [0.1, 1e300]),
         ("u", T.UINT64, [1 << 63, 1]), ("h", T.FLOAT16, [1.5, -65504.0]), ("b", T.BOOL, [True, False]), ("c", T.INT8, [-128, 127]),
         ("e", T.UINT32, [4294967295, 0]), ("g", T.BFLOAT16, [1.5, -2.0])]
case("typed_data_13", 13, [n("Cast", [k], [k + "_out"], to=T.DOUBLE) for k, _, _ in types] + [n("Neg", ["x"], ["y"])],
     {"x": x23}, {"x": [2, 3]}, {"y": (T.FLOAT, [2, 3])} | {k + "_out": (T.DOUBLE, [2]) for k, _, _ in types},
     [typed(k, t, [2], v) for k, t, v in types],
     expected=[-x23] + [np.array(v, np.float64).astype(np.float32).astype(np.float64) if t == T.FLOAT else np.array([float(i) for i in v]) for _, t, v in types])


def external(model, folder):
    onnx.external_data_helper.convert_model_to_external_data(model, all_tensors_to_one_file=True, location="weights.bin", size_threshold=0)
    onnx.save(model, folder / "tmp.onnx")
    model = onnx.load(folder / "tmp.onnx", load_external_data=False)
    (folder / "tmp.onnx").unlink()
    return model


case("external_data_17", 17, [n("MatMul", ["x", "w"], ["m"]), n("Add", ["m", "b"], ["y"])], {"x": x23}, {"x": ["n", 3]}, {"y": (T.FLOAT, ["n", 2])},
     [constant("w", f32(3, 2)), constant("b", f32(2))], post=external)

case("layer_norm_gelu_20", 20,
     [n("LayerNormalization", ["x", "g", "b"], ["l"], axis=-1, epsilon=1e-6, stash_type=1), n("Gelu", ["l"], ["y"])],
     {"x": f32(2, 8)}, {"x": ["n", 8]}, {"y": (T.FLOAT, ["n", 8])}, [constant("g", f32(8)), constant("b", f32(8))])

case("quantised_13", 13, [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "s", "z"], ["y"])], {"x": x23}, {"x": ["n", 3]},
     {"y": (T.FLOAT, ["n", 3])}, [constant("s", np.float32(0.05)), constant("z", np.uint8(128))])

case("reduce_18_resize_18", 18,
     [n("ReduceMean", ["x", "axes"], ["m"], keepdims=1), n("Sub", ["x", "m"], ["c"]), n("Resize", ["c", "", "", "sizes"], ["y"], mode="linear")],
     {"x": f32(1, 2, 3, 3)}, {"x": [1, 2, 3, 3]}, {"y": (T.FLOAT, None)},
     [constant("axes", np.array([2, 3])), constant("sizes", np.array([1, 2, 6, 5]))])

for folder in sorted(ROOT.iterdir()):
    print(folder.name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")
