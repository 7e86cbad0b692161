#!/usr/bin/env python3
"""Makes data/*.cases: small cases of every op, with the answers of ONNX Runtime. Needs numpy, onnx, onnxruntime."""

import math
import pathlib

import ml_dtypes
import numpy as np

import oracle
from oracle import Type, case

rng = np.random.default_rng(1)
FLOATS, INTS = ["f4", "f2", "f8"], ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
BF16 = ml_dtypes.bfloat16
nan, inf = np.nan, np.inf


def r(*shape, dtype="f4", low=-3.0, high=3.0):
    x = rng.uniform(low, high, shape)
    return x.astype(dtype) if np.dtype(dtype).kind == "f" or dtype == BF16 else np.trunc(x).astype(dtype)


def ints(*values):
    return np.array(values, dtype=np.int64)


def i(*shape, dtype="i8", low=-9, high=9):
    return rng.integers(max(low, np.iinfo(dtype).min), high, shape).astype(dtype)


def elementwise():
    edge = np.array([0.0, -0.0, 1.5, -2.5, nan, inf, -inf, 1e-30, 3e38, 0.5, -0.5, 88.9], "f4")
    for op in ["add", "sub", "mul", "div"]:
        case(op, r(2, 3), r(2, 3))
        case(op, r(2, 1, 4), r(3, 1))
        case(op, r(), r(0, 3))
        case(op, edge, edge[::-1].copy())
        for t in FLOATS:
            case(op, r(5, dtype=t), r(1, dtype=t))
        for t in INTS:
            case(op, i(7, dtype=t), i(7, dtype=t, low=1))
        case(op, r(4).astype(BF16), r(4, low=1).astype(BF16), oracle="reference")
    case("div", np.array([-7, 7, -7, 7], "i4"), np.array([2, 2, -2, -2], "i4"))
    case("mul", np.array([65535], "u2"), np.array([65535], "u2"), expect=[np.array([1], "u2")], label="products wrap around")
    case("div", np.array([7, -128], "i1"), np.array([0, -1], "i1"), expect=[np.array([0, -128], "i1")], label="division by zero, and the one quotient that overflows")
    for t in ["f4", "f8", "i4", "i8"]:
        case("pow", r(6, dtype=t, low=0.5), r(6, dtype=t, low=0, high=4))
        case("pow", r(2, 3, dtype=t), np.array([2], t))
    case("pow", r(4, low=0.1), np.array([2], "i8"))
    case("pow", np.array([2, 3, -2], "i4"), np.array([1.5, 2.0, 3.0], "f4"))
    case("pow", edge, np.array([0.5], "f4"))
    for t in ["i4", "i8", "u1"]:
        case("mod", i(8, dtype=t), i(8, dtype=t, low=1))
    case("mod", np.array([-7, 7, -7, 7], "i4"), np.array([3, 3, -3, -3], "i4"))
    case("mod", np.array([-7, 7, -7, 7], "i4"), np.array([3, 3, -3, -3], "i4"), fmod=1)
    case("mod", r(6), r(6), fmod=1)
    for op in ["min", "max"]:
        case(op, r(3))
        case(op, r(2, 1), r(3), r(2, 3))
        case(op, edge, edge[::-1].copy())
        for t in FLOATS + ["i4", "i8", "u4", "u8"]:
            case(op, r(4, dtype=t, low=0), r(4, dtype=t, low=0))
        case(op, r(0), r(1))
    for op in ["sum", "mean"]:
        case(op, r(3))
        case(op, r(2, 1), r(3), r(2, 3), terms=2)
        case(op, r(4, dtype="f8"), r(4, dtype="f8"), terms=2)
    case("prelu", r(2, 3, 4), r(3, 1))
    case("prelu", r(2, 3), r(1))
    case("prelu", i(5, dtype="i4"), i(5, dtype="i4"))


def unary():
    edge = np.array([0.0, -0.0, 1.5, -2.5, nan, inf, -inf, 1e-30, 0.5, -0.5, 2.5, 3.5, -90, 90], "f4")
    plain = ["erf", "exp", "tanh", "sigmoid", "floor", "ceil", "round", "softplus", "softsign", "hard_swish", "leaky_relu", "elu", "selu",
             "celu", "hard_sigmoid", "thresholded_relu", "gelu", "relu", "neg", "abs", "sign", "mish", "atan", "sinh", "cosh", "asinh"]
    for op in plain:
        case(op, r(2, 3), ulps=8, terms=1)
        case(op, r(0, 2))
        if op not in ("erf", "hard_swish", "leaky_relu", "hard_sigmoid", "gelu"):  # those that no oracle computes in f64 throughout
            case(op, r(5, dtype="f8"), ulps=8, terms=1)
        if op not in ("erf", "softplus", "softsign", "selu", "elu", "celu", "mish", "gelu", "asinh", "sinh", "cosh", "hard_swish"):
            case(op, edge, ulps=8)
        if op != "gelu":
            case(op, r(6, dtype="f2"), oracle="reference", ulps=4)
    x = r(6, dtype="f8")
    case("erf", x, expect=[np.array([math.erf(v) for v in x])], label="f64")
    case("gelu", x, expect=[np.array([0.5 * v * (1 + math.erf(v / 2**0.5)) for v in x])], label="f64")
    case("leaky_relu", x, alpha=0.25)
    case("hard_sigmoid", x, alpha=0.25, beta=0.5)
    case("hard_swish", np.array([-4, -3, 0, 3, 4, 1.25], "f4"))
    case("gelu", edge[np.isfinite(edge)], ulps=16, terms=1)
    case("gelu", r(9), approximate="tanh", ulps=16, terms=1)
    for op in ["sqrt", "log", "reciprocal", "sin", "cos", "tan"]:
        case(op, r(3, 3, low=0.1), ulps=8)
        case(op, r(4, dtype="f8", low=0.1), ulps=8)
        case(op, r(4, dtype="f2", low=0.1), oracle="reference", ulps=4)
    for op in ["sqrt", "log", "reciprocal"]:
        case(op, edge)
    for op in ["asin", "acos", "atanh"]:
        case(op, r(6, low=-0.99, high=0.99), ulps=16)
    case("acosh", r(6, low=1, high=9), ulps=16)
    for t in ["i1", "i4", "i8"]:
        case("neg", i(6, dtype=t))
        case("abs", i(6, dtype=t))
        case("sign", i(6, dtype=t))
    case("relu", i(6, dtype="i4"))
    case("abs", i(4, dtype="u1"))
    case("leaky_relu", r(5), alpha=0.2)
    case("elu", r(5), alpha=2.0, ulps=8)
    case("hard_sigmoid", r(8), alpha=0.25, beta=0.4)
    case("thresholded_relu", r(8), alpha=0.5)
    case("not", np.array([[True, False]]))
    for t in ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8"]:
        case("clip", r(6, dtype=t, low=0, high=9), np.array(2, t), np.array(5, t))
    case("clip", r(6), None, np.array(1, "f4"))
    case("clip", r(2, 3), np.array(-1, "f4"))
    case("clip", r(3))
    case("clip", edge, np.array(-1, "f4"), np.array(2, "f4"))


def logic():
    edge = np.array([1.0, nan, inf, -inf, -0.0], "f4")
    for op in ["equal", "less", "less_or_equal", "greater", "greater_or_equal"]:
        case(op, edge, np.array([1.0, nan, inf, 0.0, 0.0], "f4"))
        case(op, i(3, 1), i(4))
        for t in ["f8", "i4", "i8"]:
            case(op, r(9, dtype=t), r(9, dtype=t))
        case(op, r(0), r(1))
    case("equal", np.array([True, False]), np.array([True, True]))
    truth = np.array([[True], [False]]), np.array([True, False])
    for op in ["and", "or", "xor"]:
        case(op, *truth)
    case("where", truth[0], r(3), r(2, 3))
    case("where", np.array(True), i(2, 2), i(1, 2))
    case("where", truth[1], i(2, dtype="u1"), i(2, dtype="u1"))
    case("where", truth[0], truth[0], truth[1], oracle="reference")
    for t in FLOATS:
        case("isnan", edge.astype(t))
    case("isinf", edge)
    case("isinf", edge, detect_negative=0)
    case("isinf", edge.astype("f8"), detect_positive=0)


def conversion():
    onnx_type = {"f4": 1, "u1": 2, "i1": 3, "u2": 4, "i2": 5, "i4": 6, "i8": 7, "?": 9, "f2": 10, "f8": 11, "u4": 12, "u8": 13, BF16: 16}
    for a in onnx_type:
        for b in onnx_type:
            x = (r(2, 3, low=0, high=100) if a != "?" else r(2, 3) > 0).astype(a)
            case("cast", x, to=Type(oracle.DTYPES[np.dtype(b).name]), in_onnx={"to": onnx_type[b]})
    case("cast", np.array([1.5, -1.5, 2.5, 65504, 1e6, 1e-8, nan, inf], "f4"), to=Type("f16"), in_onnx={"to": 10})
    case("cast", np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 2.0**-25, -(1 + 2.0**-11 + 2.0**-40)], "f8"), to=Type("f16"), expect=[
        np.array([1 + 2.0**-10, 1, 0, -(1 + 2.0**-10)], "f2")], label="one rounding from f64 to f16")
    case("cast", np.array([300, -1, nan, 1e30], "f4"), to=Type("u8"), expect=[np.array([255, 0, 0, 255], "u1")], label="what does not fit saturates")
    case("cast", np.array([0.0, -0.0, nan, 2.0], "f4"), to=Type("boolean"), in_onnx={"to": 9})
    case("cast_like", r(3), i(2, dtype="i4"))


def shape():
    case("identity", r(2, 3))
    case("identity", i(3))
    for attributes in [{}, {"start": 1}, {"start": -2, "end": -1}, {"end": 9}, {"start": 2, "end": 1}, {"start": -9}]:
        case("shape", r(2, 3, 4), **attributes)
    case("shape", r())
    case("size", r(2, 3, 4))
    case("size", r(0, 4))
    for target in [(3, 2), (-1,), (0, -1), (1, 6, 1), (2, -1, 1)]:
        case("reshape", r(2, 3), ints(*target), const=[1])
    case("reshape", r(0, 3), ints(3, 0), const=[1], allowzero=1)
    case("reshape", r(1), np.zeros(0, "i8"), const=[1], numbers_only=True)
    case("squeeze", r(1, 3, 1), const=[1])
    case("squeeze", r(1, 3, 1), ints(-1), const=[1])
    case("squeeze", r(1, 3, 1), ints(0, 2), const=[1])
    case("unsqueeze", r(2, 3), ints(0, -1), const=[1])
    case("unsqueeze", r(), ints(0), const=[1])
    case("unsqueeze", r(2), ints(2, 0), const=[1])
    for axis in [0, 1, 2, 3, -1, -3]:
        case("flatten", r(2, 3, 4), axis=axis)
    case("expand", r(3, 1), ints(2, 1, 4), const=[1])
    case("expand", r(2, 3), ints(1), const=[1])
    case("expand", r(1), ints(0, 3), const=[1])
    case("expand", r(), ints(2, 2), const=[1])
    case("expand", i(3, dtype="u1"), ints(2, 3), const=[1])
    for a, b, c in [(0, 5, 1), (5, 0, -2), (3, 3, 1), (2, 9, 3), (5, 0, 1)]:
        for t in ["i8", "i4", "f4", "f8"]:
            case("range", np.array(a, t), np.array(b, t), np.array(c, t), const=[0, 1, 2])
    case("range", np.array(0.0, "f4"), np.array(1.0, "f4"), np.array(0.3, "f4"), const=[0, 1, 2])
    from onnx import numpy_helper
    for target in [(2, 3), (0,), (1, 1, 1)]:
        case("constant_of_shape", ints(*target), const=[0])
        for value in [np.array([7], "i8"), np.array([1.5], "f4"), np.array([True])]:
            case("constant_of_shape", ints(*target), value, const=[0, 1], in_onnx={"value": numpy_helper.from_array(value)}, onnx_inputs=[ints(*target)])


def layout():
    case("transpose", r(2, 3, 4))
    case("transpose", r(2, 3, 4), perm=[1, 2, 0])
    case("transpose", i(2, 1, 3, 2, dtype="u1"), perm=[0, 3, 1, 2])
    case("transpose", r(0, 3), perm=[1, 0])
    case("transpose", r(5))
    for axis in [0, 1, -1]:
        case("concat", r(2, 3), r(2, 3), axis=axis)
    case("concat", r(2, 0), r(2, 3), r(2, 1), axis=1)
    case("concat", i(2, dtype="u1"), axis=0)
    case("split", r(6, 2), outputs=3, in_onnx={"num_outputs": 3})
    case("split", r(2, 7), outputs=3, axis=1, in_onnx={"num_outputs": 3, "axis": 1})
    case("split", r(2, 7), ints(1, 0, 6), outputs=3, axis=-1, const=[1], in_onnx={"axis": -1})
    x = r(4, 5, 6)
    for args in [((1, 0), (3, 9), None, None), ((0,), (1000,), (1,), (2,)), ((-1,), (-100,), (2,), (-1,)), ((-3, 2), (-1, 2), (0, 1), None),
                 ((3,), (0,), (-1,), (-2,)), ((0,), (2**63 - 1,), (0,), (3,)), ((9,), (0,), (0,), (-1,)), ((-9,), (2,), (0,), (1,)),
                 ((2**31 - 1,), (-(2**63),), (2,), (-4,))]:
        case("slice", x, *[None if a is None else ints(*a) for a in args], const=[1, 2, 3, 4])
    case("slice", r(0, 3), ints(0), ints(2), const=[1, 2])
    case("slice", i(9, dtype="u1"), np.array([2], "i4"), np.array([8], "i4"), const=[1, 2])
    for mode in ["constant", "edge", "reflect", "wrap"]:
        case("pad", r(3, 4), ints(1, 2, 0, 3), const=[1], mode=mode, oracle="reference" if mode == "wrap" else "ort")
    case("pad", r(2, 3), ints(0, 1, 1, 0), np.array(7, "f4"), const=[1])
    case("pad", r(2, 3), ints(2, 1), np.array(7, "f4"), ints(-1), const=[1, 3])
    case("pad", r(4, 5), ints(-1, 1, 0, -2), const=[1])
    case("pad", i(3), ints(1, 1), np.array(-4, "i8"), const=[1])
    case("pad", r(1, 3), ints(0, 5, 0, 5), mode="edge", const=[1])
    case("tile", r(2, 3), ints(2, 1), const=[1])
    case("tile", r(2), ints(0), const=[1])
    case("tile", i(1, 2, dtype="u1"), ints(3, 2), const=[1])
    for mode in ["DCR", "CRD"]:
        case("depth_to_space", r(2, 8, 2, 3), blocksize=2, mode=mode, numbers_only=True)
    case("space_to_depth", r(2, 3, 4, 6), blocksize=2, numbers_only=True)
    for k in [None, -1, 0, 2, 9]:
        for upper in [0, 1]:
            case("trilu", r(2, 3, 4), *([] if k is None else [np.array(k, "i8")]), upper=upper)


def indexing():
    x = r(3, 4, 2)
    for axis in [0, 1, -1]:
        case("gather", x, np.array([[0, 1], [-1, 1]], "i8"), axis=axis)
    case("gather", x, np.array(2, "i4"))
    case("gather", x, np.zeros((0,), "i8"), axis=1)
    case("gather", i(5), ints(4, 0), const=[1])
    case("gather_elements", x, i(3, 4, 2, low=-4, high=4), axis=1)
    case("gather_elements", x, i(2, 4, 2, low=-3, high=3, dtype="i4"))
    case("gather_elements", r(3, 3), i(3, 2, low=-3, high=3), axis=-1)
    case("gather_nd", x, np.array([[0, 1], [2, -1]], "i8"), numbers_only=True)
    case("gather_nd", x, np.array([[[2]], [[0]]], "i8"), numbers_only=True)
    case("gather_nd", x, np.array([[0, 1, 1]], "i8"), numbers_only=True)
    case("gather_nd", x, np.array([[1], [3], [-4]], "i8"), batch_dims=1, numbers_only=True)
    case("gather_nd", i(2, 3, dtype="u1"), np.array([[[1], [0]], [[2], [2]]], "i8"), batch_dims=1, numbers_only=True)
    for reduction in ["none", "add", "mul", "max", "min"]:
        case("scatter_elements", r(3, 4), np.array([[0, 1], [2, -1]], "i8"), r(2, 2), axis=1, reduction=reduction)
        case("scatter_nd", r(4, 3), np.array([[1], [3]], "i8"), r(2, 3), reduction=reduction, numbers_only=True)
    case("scatter_elements", i(3, 3), i(2, 3, low=0, high=1), i(2, 3), axis=0, reduction="add")
    case("scatter_elements", i(3, 3, dtype="u1"), ints(2, 0).reshape(1, 2), i(1, 2, dtype="u1"))
    case("scatter_nd", r(2, 3, 2), np.array([[[0, 1]], [[1, -1]]], "i8"), r(2, 1, 2), numbers_only=True)
    case("scatter_nd", i(5), np.array([[1], [1]], "i8"), i(2), reduction="add", numbers_only=True)
    case("one_hot", ints(0, 2, -1, 5), np.array(3, "i8"), np.array([0, 1], "f4"), const=[1, 2])
    case("one_hot", np.array([[1, 0]], "i8"), np.array([2], "i8"), np.array([5, 7], "i8"), const=[1, 2], axis=1)
    case("one_hot", np.array([1.0, 0.0], "f4"), np.array(4.0, "f4"), np.array([-1, 1], "f4"), const=[1, 2], axis=0)


def reduce():
    ops = ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"]
    for op in ops:
        x = r(2, 3, 4, low=0.2 if op == "log_sum" else -3)
        for axes, keep in [((1,), 1), ((-1, 0), 0), (None, 1), (None, 0), ((), 1)]:
            args = () if axes is None else (ints(*axes),)
            case("reduce_" + op, x, *args, const=[1], keepdims=keep, terms=32, ulps=8)
        case("reduce_" + op, x, ints(), const=[1], noop_with_empty_axes=1, oracle="reference") if op in ("sum", "max", "mean") else None
        case("reduce_" + op, r(3, 5, dtype="f8", low=0.1), ints(1), const=[1], terms=32, oracle="ort")
        if op not in ("l2", "log_sum", "log_sum_exp"):
            case("reduce_" + op, i(3, 4, dtype="i4"), ints(0), const=[1])
            case("reduce_" + op, i(3, 4, dtype="i8"), ints(1), const=[1], oracle="reference" if op != "sum" else "ort")
    case("reduce_sum", r(2, 0), ints(1), const=[1])
    case("reduce_prod", r(2, 0), ints(1), const=[1], oracle="reference")
    case("reduce_max", np.array([[1, nan, 2]], "f4"), ints(1), const=[1], oracle="reference")
    case("reduce_max", np.array([[True, False], [False, False]]), ints(1), const=[1])
    case("reduce_min", np.array([[True, False], [True, True]]), ints(1), const=[1])
    case("reduce_sum", r(), keepdims=0)
    case("reduce_log_sum_exp", np.array([[1000, 1000.5], [-inf, 0]], "f4"), ints(1), const=[1], oracle="reference")
    for op in ["arg_max", "arg_min"]:
        x = np.array([[1, 3, 3, 0], [0, 0, -2, -2]], "f4")
        for axis in [0, 1, -1]:
            for last in [0, 1]:
                case(op, x, axis=axis, select_last_index=last)
        case(op, i(2, 3, 4, dtype="i4"), axis=1, keepdims=0)
    for exclusive in [0, 1]:
        for reverse in [0, 1]:
            case("cum_sum", r(2, 4), np.array(1, "i8"), const=[1], exclusive=exclusive, reverse=reverse, terms=8)
    case("cum_sum", i(3, 2, dtype="i4"), np.array(-2, "i4"), const=[1])


def product():
    for a, b in [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)),
                 ((0, 2), (2, 3)), ((3,), (2, 3, 4)), ((4, 2, 3), (3,))]:
        case("matmul", r(*a), r(*b), terms=8)
    for t in ["f8", "f2", "i4", "i8", "u4"]:
        case("matmul", r(3, 5, dtype=t, low=0), r(5, 2, dtype=t, low=0), terms=8, oracle="reference" if t == "f2" else "ort")
    for ta in [0, 1]:
        for tb in [0, 1]:
            case("gemm", r(*((3, 2) if ta else (2, 3))), r(*((4, 3) if tb else (3, 4))), r(4), transA=ta, transB=tb, alpha=0.5, beta=2.0, terms=16)
    case("gemm", r(2, 3), r(3, 4), terms=16)
    for c in [(1,), (2, 1), (2, 4), ()]:
        case("gemm", r(2, 3), r(3, 4), r(*c), terms=16)
    for ta, tb in [("u1", "i1"), ("u1", "u1"), ("i1", "i1")]:
        case("matmul_integer", i(2, 3, dtype=ta), i(3, 4, dtype=tb))
        case("matmul_integer", i(2, 3, dtype=ta), i(3, 4, dtype=tb), np.array(3, ta), np.array(2, tb))
    case("matmul_integer", i(2, 2, 3, dtype="u1"), i(3, 4, dtype="i1"), np.array(3, "u1"), i(4, dtype="i1"))
    case("matmul_integer", i(2, 3, 4, dtype="u1"), i(2, 4, 2, dtype="u1"), None, i(2, 1, 2, dtype="u1"))


def convolution():
    case("conv", r(2, 3, 8), r(4, 3, 3), terms=16)
    case("conv", r(1, 3, 7, 6), r(4, 3, 3, 3), r(4), pads=[1, 1, 1, 1], strides=[2, 2], terms=32)
    case("conv", r(1, 4, 6, 6), r(4, 1, 3, 2), group=4, dilations=[2, 1], terms=32, numbers_only=True)
    case("conv", r(1, 4, 5, 5), r(6, 2, 1, 1), group=2, kernel_shape=[1, 1], terms=8, numbers_only=True)
    case("conv", r(1, 2, 4, 4, 4), r(3, 2, 2, 2, 2), pads=[0, 1, 0, 1, 0, 1], terms=32)
    for pad in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        case("conv", r(1, 2, 7, 6), r(3, 2, 3, 4), auto_pad=pad, strides=[2, 1], terms=32)
    case("conv", r(0, 2, 5), r(3, 2, 3), terms=8)
    case("conv", r(1, 2, 5, dtype="f8"), r(3, 2, 3, dtype="f8"), terms=16)
    case("conv", r(1, 2, 5, dtype="f2"), r(3, 2, 3, dtype="f2"), terms=16, oracle="reference")
    case("conv_integer", i(1, 2, 5, 5, dtype="u1"), i(3, 2, 3, 3, dtype="u1"))
    case("conv_integer", i(1, 2, 5, 5, dtype="u1"), i(3, 2, 3, 3, dtype="i1"), np.array(4, "u1"), np.array(1, "i1"), pads=[1, 1, 1, 1])
    case("conv_integer", i(1, 2, 5, 5, dtype="u1"), i(3, 2, 3, 3, dtype="i1"), np.array(4, "u1"), i(3, dtype="i1"), strides=[2, 2])
    case("conv_transpose", r(1, 3, 5), r(3, 2, 3), terms=32)
    case("conv_transpose", r(2, 2, 3, 4), r(2, 3, 3, 3), r(3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0], terms=32)
    case("conv_transpose", r(1, 4, 3, 3), r(4, 1, 2, 2), group=2, dilations=[2, 1], terms=32, numbers_only=True)
    case("conv_transpose", r(1, 2, 3, 3), r(2, 1, 3, 3), strides=[3, 2], output_shape=[10, 8], terms=32)
    for pad in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        case("conv_transpose", r(1, 2, 3, 3), r(2, 1, 3, 3), strides=[2, 2], auto_pad=pad, terms=32)


def pooling():
    for op in ["max_pool", "average_pool"]:
        x = r(2, 3, 7, 6)
        case(op, x, kernel_shape=[3, 2], terms=8)
        case(op, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], terms=8)
        case(op, x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, terms=8)
        case(op, x, kernel_shape=[2, 2], dilations=[2, 3], terms=8)
        case(op, r(1, 2, 9), kernel_shape=[2], strides=[3], terms=8)
        case(op, r(1, 1, 4, 5, 4), kernel_shape=[2, 2, 2], strides=[2, 2, 2], terms=8)
        for pad in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
            case(op, x, kernel_shape=[3, 3], strides=[2, 3], auto_pad=pad, terms=8)
    case("average_pool", r(1, 1, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, terms=8)
    case("average_pool", r(1, 1, 6, 6), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1, terms=8, oracle="reference")
    case("max_pool", i(1, 1, 4, 4, dtype="u1"), kernel_shape=[2, 2])
    case("max_pool", i(1, 1, 4, 4, dtype="i1"), kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    for op in ["global_average_pool", "global_max_pool"]:
        case(op, r(2, 3, 4, 5), terms=8)
        case(op, r(1, 2, 7), terms=8)


def normalization():
    for op in ["softmax", "log_softmax"]:
        for axis in [0, 1, -1]:
            case(op, r(2, 3, 4), axis=axis, terms=1, ulps=16)
        case(op, r(2, 5, dtype="f8"), terms=1, ulps=16)
        case(op, np.array([[1000, 1001, -inf]], "f4"), terms=1, ulps=16)
        case(op, r(0, 3))
        case(op, r(2, 5, dtype="f2"), terms=1, oracle="reference")
    case("softmax", np.array([[-inf, -inf]], "f4"), oracle="reference")
    case("layer_normalization", r(2, 3, 4), r(4), r(4), terms=16)
    case("layer_normalization", r(2, 3, 4), r(3, 4), axis=1, epsilon=0.01, terms=16)
    case("layer_normalization", r(2, 3, 4), r(1, 1, 4), r(1), axis=-2, terms=16, oracle="reference")
    case("layer_normalization", r(2, 6, dtype="f2"), r(6, dtype="f2"), r(6, dtype="f2"), terms=4, oracle="reference")
    case("rms_normalization", r(2, 3, 4), r(4), terms=16, opset=23, oracle="reference")
    case("rms_normalization", r(2, 3, 4), r(3, 4), axis=1, epsilon=0.5, terms=16, opset=23, oracle="reference")
    for shape in [(2, 3), (2, 3, 4), (1, 3, 2, 2)]:
        case("batch_normalization", r(*shape), r(3), r(3), r(3), r(3, low=0.1), terms=16)
    case("batch_normalization", r(2, 3, 2), r(3), r(3), r(3), r(3, low=0.1), epsilon=0.1, terms=16)
    case("instance_normalization", r(2, 3, 5), r(3), r(3), terms=16)
    case("instance_normalization", r(1, 3, 4, 4), r(3), r(3), epsilon=0.01, terms=16)
    case("group_normalization", r(2, 4, 5), r(4), r(4), num_groups=2, terms=16, oracle="reference")
    case("group_normalization", r(1, 6, 2, 2), r(6), r(6), num_groups=3, epsilon=0.01, terms=16, oracle="reference")
    case("lrn", r(2, 5, 3, 2), size=3, ulps=8)
    case("lrn", r(1, 6, 2, 2), size=5, alpha=0.5, beta=0.5, bias=2.0, ulps=16)


def quantization():
    x = r(3, 4, low=-20, high=20)
    for t in ["u1", "i1", "u2", "i2"]:
        case("quantize_linear", x, np.array(0.25, "f4"), np.array(7, t))
        case("dequantize_linear", i(3, 4, dtype=t), np.array(0.25, "f4"), np.array(7, t))
    case("quantize_linear", np.array([0.5, 1.5, 2.5, -0.5, 1e9, -1e9], "f4"), np.array(1.0, "f4"), np.array(3, "u1"))
    case("quantize_linear", x, np.array(0.5, "f4"))
    for axis in [0, -1]:
        n = x.shape[axis]
        case("quantize_linear", x, r(n, low=0.1), i(n, dtype="i1"), axis=axis)
        case("dequantize_linear", i(3, 4, dtype="i1"), r(n, low=0.1), i(n, dtype="i1"), axis=axis)
    case("quantize_linear", r(2, 5), r(2, 3, low=0.1), i(2, 3, dtype="i1"), axis=1, block_size=2, oracle="reference")
    case("dequantize_linear", i(4, 3, dtype="u1"), r(2, 3, low=0.1), i(2, 3, dtype="u1"), axis=0, block_size=2)
    case("dequantize_linear", i(5, dtype="i4", low=-1000, high=1000), np.array(0.5, "f4"))
    case("dequantize_linear", i(5, dtype="u1"), np.array(0.5, "f2"), np.array(2, "u1"))
    for y in [r(2, 7), r(5, low=1, high=2), r(5, low=-2, high=-1), np.zeros(3, "f4")]:
        case("dynamic_quantize_linear", y, outputs=3)


def selection():
    x = np.array([[1, 3, 3, 0, -2], [0, 0, -2, -2, 5]], "f4")
    for largest in [0, 1]:
        case("top_k", x, ints(3), const=[1], outputs=2, largest=largest)
        case("top_k", r(3, 4, 2), ints(2), const=[1], outputs=2, axis=1, largest=largest)
    case("top_k", i(7), ints(7), const=[1], outputs=2)
    case("top_k", x, ints(0), const=[1], outputs=2)


def resize():
    x = r(1, 2, 4, 5)
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    for mode in ["nearest", "linear", "cubic"]:
        for where in coordinates:
            for scales in [(1, 1, 2, 2), (1, 1, 0.6, 1.5)]:
                case("resize", x, None, np.array(scales, "f4"), const=[2], mode=mode, coordinate_transformation_mode=where, terms=16, ulps=16,
                     oracle="reference" if where == "half_pixel_symmetric" else "ort", numbers_only=scales[2] == 0.6)
            case("resize", x, None, None, ints(1, 2, 7, 3), const=[3], mode=mode, coordinate_transformation_mode=where, terms=16, ulps=16,
                 oracle="reference" if where == "half_pixel_symmetric" else "ort")
    for rounding in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
        case("resize", r(1, 1, 4, 6), None, np.array([1, 1, 1.5, 0.5], "f4"), const=[2], nearest_mode=rounding)
    case("resize", x, None, np.array([0.5, 3], "f4"), const=[2], axes=[2, 3], mode="linear", terms=16)
    case("resize", x, None, None, ints(8, 8), const=[3], axes=[2, 3], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1, terms=16, ulps=16)
    case("resize", i(1, 1, 3, 3, dtype="u1", low=0, high=255), None, np.array([1, 1, 2, 2], "f4"), const=[2])


def einsum():
    for equation, *shapes in [("ij,jk->ik", (2, 3), (3, 4)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)), ("ij->ji", (2, 3)), ("ij->", (2, 3)),
                              ("ii->i", (3, 3)), ("ii", (3, 3)), ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)), ("ij,jk", (2, 3), (3, 2)),
                              ("i,j,k->kij", (2,), (3,), (4,)), ("b...d,d->b...", (2, 3, 4), (4,)), (" i j , j -> i ", (2, 3), (3,))]:
        case("einsum", *[r(*s) for s in shapes], equation=equation, terms=16, oracle="reference" if " " in equation else "ort")
    case("einsum", i(2, 3), i(3), equation="ij,j->i")


def recurrent():
    lengths = np.array([4, 2, 3], "i4")
    for op, gates, outputs in [("lstm", 4, 3), ("gru", 3, 2), ("rnn", 1, 2)]:
        s, b, n, h = 4, 3, 2, 5
        def weights(d):
            return r(d, gates * h, n, low=-1, high=1), r(d, gates * h, h, low=-1, high=1)
        def states(d, count=2 if op == "lstm" else 1):
            return [r(d, b, h, low=-1, high=1) for _ in range(count)]
        common = dict(hidden_size=h, outputs=outputs, terms=16, ulps=16)
        case(op, r(s, b, n), *weights(1), **common)
        for direction, d in [("forward", 1), ("reverse", 1), ("bidirectional", 2)]:
            bias = r(d, 2 * gates * h, low=-1, high=1)
            case(op, r(s, b, n), *weights(d), bias, lengths, *states(d), direction=direction, **common)
            case(op, r(s, b, n), *weights(d), bias, None, *states(d), direction=direction, **common)
        case(op, r(s, b, n), *weights(1), None, None, None, clip=0.5, **common)
        names = ["Sigmoid", "Relu", "Tanh"][: {"lstm": 3, "gru": 2, "rnn": 1}[op]]
        case(op, r(s, b, n), *weights(1), activations=names, **common)
        case(op, r(b, s, n), *weights(1), layout=1, oracle="reference", **common) if op != "rnn" else None
    s, b, n, h = 3, 2, 2, 4
    w, u, bias = r(1, 4 * h, n), r(1, 4 * h, h), r(1, 8 * h)
    case("lstm", r(s, b, n), w, u, bias, None, None, None, r(1, 3 * h), hidden_size=h, outputs=3, terms=16, ulps=16)
    case("lstm", r(s, b, n), w, u, bias, hidden_size=h, outputs=3, input_forget=1, terms=16, ulps=16)
    w, u, bias = r(2, 3 * h, n), r(2, 3 * h, h), r(2, 6 * h)
    case("gru", r(s, b, n), w, u, bias, hidden_size=h, outputs=2, linear_before_reset=1, direction="bidirectional", terms=16, ulps=16)


here = pathlib.Path(__file__).parent / "data"
for family in [elementwise, unary, logic, conversion, shape, layout, indexing, reduce, product, convolution, pooling, normalization, quantization,
               selection, resize, einsum, recurrent]:
    oracle.cases.clear()
    family()
    oracle.write(here / f"{family.__name__}.cases")
