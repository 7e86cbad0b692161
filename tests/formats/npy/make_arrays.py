#!/usr/bin/env python3
"""Makes data/*.npy with NumPy: every plain element type, the three header versions, both orders. Run in this folder."""
import pathlib

import numpy as np
from numpy.lib import format as npy

ROOT = pathlib.Path(__file__).parent / "data"
ROOT.mkdir(exist_ok=True)
for old in ROOT.glob("*.npy"):
    old.unlink()
for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
    np.save(ROOT / f"{name}.npy", (np.arange(6) - (0 if name[0] in "ub" else 3)).reshape(2, 3).astype(name))
for version in (1, 2, 3):
    with open(ROOT / f"version{version}.npy", "wb") as f:
        npy.write_array(f, np.arange(5, dtype=np.int32), version=(version, 0))
np.save(ROOT / "fortran.npy", np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)))
np.save(ROOT / "scalar.npy", np.float32(2.5))
np.save(ROOT / "empty.npy", np.zeros((0, 7), np.float64))
np.save(ROOT / "big_endian.npy", np.arange(3, dtype=">i4"))
np.save(ROOT / "complex.npy", np.zeros(2, np.complex64))
np.save(ROOT / "structured.npy", np.zeros(2, [("a", "i4")]))
np.save(ROOT / "text.npy", np.array(["ab"]))
