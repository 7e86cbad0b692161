#!/usr/bin/env python3
"""Makes data/dequantize/TYPE.bin: blocks of each GGUF type and the floats the reference implementations give for them.

    pip install gguf numpy;  make_dequantize.py [libggml-base.so]

The oracle is the package `gguf`; where it has no dequantiser, ggml's own function (from the shared library, which is also compared with
the package for every other type), and for q8_1, which nobody dequantises, the definition in its C struct: scale times byte.
A file: u32 number of blocks, the blocks, then their elements as f32.
"""
import ctypes, sys
from pathlib import Path

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

C_ONLY = {"q1_0": (128, 18), "q2_0": (64, 18), "q8_K": (256, 292)}
SIZES = {t.name.lower().replace("_k", "_K"): GGML_QUANT_SIZES[t] for t in T} | C_ONLY | {"q8_1": (32, 36)}  # the package says 40 for q8_1
PLAIN = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8"}
HALVES = {  # where the f16 scales and minima of a block lie
    "q1_0": [0], "q2_0": [0], "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q8_1": [0, 2], "q2_K": [80, 82], "q3_K": [108],
    "q4_K": [0, 2], "q5_K": [0, 2], "q6_K": [208], "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0],
    "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64]}
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]  # zeros, subnormals, largest, infinities, NaN
rng = np.random.default_rng(20240607)


def set_half(block, offset, bits):
    block[offset], block[offset + 1] = bits & 255, bits >> 8


def blocks_of(name):
    _, size = SIZES[name]
    count = 6 + len(EXTREME)
    b = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for i in range(count):
        ordinary = [int(np.float16(x).view(np.uint16)) for x in rng.normal(0, 0.02, 2)]
        for k, offset in enumerate(HALVES.get(name, [])):
            set_half(b[i], offset, ordinary[k] if i < 6 else EXTREME[(i - 6 + 3 * k) % len(EXTREME)])
        if name == "iq1_m":  # the half is spread over the high nibbles of four words
            half = ordinary[0] if i < 6 else EXTREME[i - 6]
            for k in range(4): b[i][49 + 2 * k] = b[i][49 + 2 * k] & 15 | (half >> 4 * k & 15) << 4
        if name == "q8_K":
            scale = rng.normal(0, 0.02) if i < 6 else [0.0, -0.0, 1e-45, -1e-40, 1e-38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1.0][i - 6]
            b[i][:4] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
        if name == "mxfp4": b[i][0] = [127, 120, 130, 0, 1, 2, 3, 128, 200, 252, 253, 254, 255][i % 13]
        if name == "nvfp4" and i >= 6: b[i][:4] = [[0, 0x7F, 0xFF, 0x80], [1, 7, 8, 9], [0x7E, 0x78, 0x77, 0xFE]][i % 3]
    return np.concatenate([b, grid_blocks(name)])


def grid_blocks(name):
    """Blocks whose indices run through the whole grid of the format."""
    entries, per_block = {"iq2_xxs": (256, 32), "iq2_xs": (512, 32), "iq2_s": (1024, 32), "iq3_xxs": (256, 64), "iq3_s": (512, 64),
                          "iq1_s": (2048, 32)}.get(name, (0, 1))
    b = np.zeros((entries // per_block, SIZES[name][1]), np.uint8)
    for t, block in enumerate(b):
        set_half(block, 0, 0x3C00)
        for j in range(per_block):
            index = t * per_block + j
            if name == "iq2_xxs": block[2 + 8 * (j // 4) + j % 4] = index
            elif name == "iq2_xs": set_half(block, 2 + 2 * j, index)
            else: block[2 + j] = index & 255
            high = index >> 8
            if name == "iq2_s": block[66 + j // 4] |= high << 2 * (j % 4)
            if name == "iq3_s": block[66 + j // 8] |= high << j % 8
            if name == "iq1_s": set_half(block, 34 + 2 * (j // 4), (int(block[35 + 2 * (j // 4)]) << 8 | int(block[34 + 2 * (j // 4)])) | high << 3 * (j % 4))
    return b


def plain(name):
    kind = PLAIN[name]
    if kind[1] == "f":
        special = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 65504.0, 6e-8, 1e-7, 0.1, 1 / 3], kind)
        bits = rng.integers(0, 256, (52, int(kind[2])), dtype=np.uint8)
        return np.concatenate([special, bits.view(kind).ravel()])
    limits = np.iinfo(kind)
    return np.concatenate([np.array([limits.min, limits.max, 0, 1, -1], kind), rng.integers(limits.min, limits.max, 59, kind)])


def from_c(library, name, blocks):
    out = np.empty(len(blocks) * SIZES[name][0], np.float32)
    function = getattr(library, "dequantize_row_" + name)
    function(blocks.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(out.size))
    return out


def same(a, b):
    return np.array_equal(np.where(np.isnan(a), np.float32(7e33), a).view(np.uint32), np.where(np.isnan(b), np.float32(7e33), b).view(np.uint32))


np.seterr(all="ignore")
library = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None
target = Path(__file__).parent / "data" / "dequantize"
target.mkdir(parents=True, exist_ok=True)
for name in SIZES:
    if name in PLAIN:
        raw = plain(name)
        values, count, raw = raw.astype(np.float32), len(raw), raw.view(np.uint8)
    elif name == "bf16":
        raw = rng.integers(0, 65536, 64).astype("<u2")
        values, count, raw = quants.dequantize(raw.view(np.uint8), T.BF16), 64, raw.view(np.uint8)
    else:
        raw = np.ascontiguousarray(blocks_of(name))
        count = len(raw)
        if name in C_ONLY:
            if library is None: continue
            values = from_c(library, name, raw)
        elif name == "q8_1":
            values = (raw[:, :2].copy().view("<f2").astype(np.float32) * raw[:, 4:].view(np.int8).astype(np.float32)).ravel()
        else:
            values = quants.dequantize(raw, T[name.upper()]).ravel()
            if library is not None: assert same(values, from_c(library, name, raw)), name
    assert values.dtype == np.float32
    (target / (name + ".bin")).write_bytes(np.uint32(count).tobytes() + raw.tobytes() + values.tobytes())
    print(name, count)
