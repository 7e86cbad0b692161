#!/usr/bin/env python3
"""Makes data/python.gguf and data/split-0000K-of-00003.gguf with the reference writer.     pip install gguf numpy

The tests hold the same values (file_test.cc, writer_test.cc): the reader must find them, and our writer must write the same bytes.
"""
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, GGUFValueType as V, GGMLQuantizationType as T

data = Path(__file__).parent / "data"


def metadata(w):
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_float32("t.f32", 0.1)
    w.add_bool("t.true", True)
    w.add_bool("t.false", False)
    w.add_string("t.string", "grüße\n\"q\"")
    w.add_key_value("t.empty", "", V.STRING)
    w.add_uint64("t.u64", 2**64 - 1)
    w.add_int64("t.i64", -(2**63))
    w.add_float64("t.f64", 0.1)
    w.add_key_value("t.array.u8", [1, 2, 255], V.ARRAY, sub_type=V.UINT8)
    w.add_key_value("t.array.i32", [-1, 0, 7], V.ARRAY, sub_type=V.INT32)
    w.add_key_value("t.array.f32", [0.5, -0.25], V.ARRAY, sub_type=V.FLOAT32)
    w.add_key_value("t.array.bool", [True, False, True], V.ARRAY, sub_type=V.BOOL)
    w.add_key_value("t.array.string", ["a", "", "ccc", "ü"], V.ARRAY, sub_type=V.STRING)
    w.add_key_value("t.array.u64", [0, 2**63], V.ARRAY, sub_type=V.UINT64)


def tensors(w):
    w.add_tensor("ramp", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("half", np.array([1.5, -2.0, 0.25], np.float16))
    w.add_tensor("bytes", (np.arange(2 * 36) % 251).astype(np.uint8).reshape(2, 36), raw_dtype=T.Q4_0)  # two rows of 64 elements
    w.add_tensor("cube", np.arange(24, dtype=np.int32).reshape(2, 3, 4))


def write(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


data.mkdir(exist_ok=True)
one = GGUFWriter(data / "python.gguf", "test")
metadata(one)
tensors(one)
write(one)

split = GGUFWriter(data / "split.gguf", "test", split_max_tensors=2)
split.add_string("t.string", "in the first part")
tensors(split)
split.add_tensor("last", np.arange(5, dtype=np.int64))
write(split)
