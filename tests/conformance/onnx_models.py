#!/usr/bin/env python3
"""Runs ONNX models on Quern and on ONNX Runtime with the same seeded inputs of varying batch and length, and compares all outputs.

    onnx_models.py [--quern build/release/bin/quern] [--cases 20] [--cosine NAME …] MODEL.onnx …

Bars: the largest absolute difference of a float output is at most 1e-4 of that output's range, integer outputs are equal; models whose file name
contains a --cosine NAME (int8 models: default "int8") are held to a cosine of at least 0.9995 instead. Needs the packages numpy and onnxruntime.
Exit status 1 when a bar is missed. Symbols named like a batch get 1 to 4, all others 1 to 64; inputs named like a mask get ones then zeros."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
          "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


def file_name(name):
    """The name of a value as a file's name, as `quern run` writes it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy"


def vocabulary(model):
    """Rows of the largest table that a Gather reads, for inputs that are ids; the package onnx is asked only when there is such an input."""
    import onnx
    graph = onnx.load(model).graph
    rows = {i.name: i.dims[0] for i in graph.initializer if len(i.dims) == 2}
    return max([rows[n.input[0]] for n in graph.node if n.op_type == "Gather" and n.input[0] in rows], default=100)


def make_inputs(session, rng, ids):
    sizes, feeds = {}, {}
    for port in session.get_inputs():
        shape = []
        for axis, d in enumerate(port.shape):
            if isinstance(d, int):
                shape.append(d)
                continue
            is_batch = axis == 0 or (d and "batch" in d.lower())
            shape.append(sizes.setdefault(d or (port.name, axis), int(rng.integers(1, 5 if is_batch else 65))))
        dtype = DTYPES[port.type]
        if np.issubdtype(dtype, np.floating):
            value = rng.standard_normal(shape)
        elif "mask" in port.name:
            value = np.arange(shape[-1]) < rng.integers(1, shape[-1] + 1, shape[:-1])[..., None]
        else:
            value = rng.integers(0, 2 if "type" in port.name or dtype == np.bool_ else ids, shape)
        feeds[port.name] = np.ascontiguousarray(value).astype(dtype)
    return feeds


def compare(got, expected, by_cosine):
    """(value, holds): the measure of the bar and whether it is met."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}", False
    if not np.issubdtype(expected.dtype, np.floating):
        return "equal" if np.array_equal(got, expected) else "not equal", bool(np.array_equal(got, expected))
    g, e = got.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    if not np.array_equal(np.isfinite(g), np.isfinite(e)):
        return "not finite where it should be", False
    if by_cosine:
        cosine = g @ e / max(np.linalg.norm(g) * np.linalg.norm(e), 1e-300)
        return f"cosine {cosine:.7f}", cosine >= 0.9995
    difference = np.abs(g - e).max(initial=0) / max(np.ptp(e) if e.size else 0, 1e-30)
    return f"difference {difference:.2e} of the range", difference <= 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--quern", default="build/release/bin/quern")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--cosine", action="append", default=["int8"])
    arguments = parser.parse_args()
    failures = 0
    for model in arguments.models:
        session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        has_ids = any("int" in p.type and "mask" not in p.name for p in session.get_inputs())
        ids = vocabulary(model) if has_ids else 0
        by_cosine = any(name in model.name for name in arguments.cosine)
        for case in range(arguments.cases):
            feeds = make_inputs(session, np.random.default_rng(case), ids)
            with tempfile.TemporaryDirectory() as folder:
                inputs, outputs = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
                inputs.mkdir()
                outputs.mkdir()
                for name, value in feeds.items():
                    np.save(inputs / file_name(name), value)
                run = subprocess.run([arguments.quern, "run", str(model), "--inputs", str(inputs), "--outputs", str(outputs)], capture_output=True, text=True)
                if run.returncode != 0:
                    print(f"{model.name} case {case}: {run.stderr.strip()}")
                    failures += 1
                    continue
                for port, expected in zip(session.get_outputs(), session.run(None, feeds)):
                    path = outputs / file_name(port.name)
                    measure, holds = compare(np.load(path), expected, by_cosine) if path.exists() else ("no file", False)
                    shapes = " ".join(str(list(v.shape)) for v in feeds.values())
                    print(f"{model.name} case {case} {shapes} {port.name}: {measure}{'' if holds else '  MISSED'}")
                    failures += not holds
    print("all bars met" if failures == 0 else f"{failures} missed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
