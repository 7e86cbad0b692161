#!/usr/bin/env python3
"""benchmarks/roofline.py on a profile whose points can be placed by hand."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "roofline.py"
SVG = "{http://www.w3.org/2000/svg}"


def kernel(op: str, time_s: float, operations: float, bytes_: float, memory_bytes: float) -> dict:
    return {"name": op + " kernel", "op": op, "time_s": time_s, "waiting_s": 0.0, "operations": operations, "bytes": bytes_,
            "memory_bytes": memory_bytes}


def group(sizes: dict, kernels: list) -> dict:
    return {"sizes": sizes, "runs": 2, "wall_s": sum(k["time_s"] for k in kernels), "idle_s": 0.0, "kernels": kernels}


PROFILE = {
    "machine": {"cpu": 'A <fast> & "wide" one', "isa": "avx2", "workers": 2},
    "limits": {"memory_read_bytes_per_s": 1e10, "f32_flops": 1e11, "bf16_flops": 2e11, "int8_ops": 1e12},
    "groups": [
        # At 1000 operations a byte and half of the int8 peak; split over two kernels, which are one op.
        group({"rows": 1, "tokens": 512}, [kernel("linear", 0.5, 2.5e11, 3e8, 2.5e8), kernel("linear", 0.5, 2.5e11, 3e8, 2.5e8),
                                           kernel("silu_mul", 0.2, 1e9, 1e9, 0.0), kernel("take_rows", 0.1, 0.0, 1e9, 1e9)]),
        group({"rows": 8, "tokens": 8}, [kernel("linear", 1.0, 1e10, 1e10, 1e10)]),
        group({"rows": 1, "tokens": 1}, [kernel("linear", 0.1, 1e9, 1e9, 1e9)]),
    ],
}


class Roofline(unittest.TestCase):
    def draw(self, content: dict, *options: str) -> "subprocess.CompletedProcess[str]":
        with tempfile.TemporaryDirectory() as folder:
            profile, svg = pathlib.Path(folder, "p.json"), pathlib.Path(folder, "p.svg")
            profile.write_text(json.dumps(content), encoding="utf-8")
            done = subprocess.run([sys.executable, str(SCRIPT), str(profile), str(svg), *options], capture_output=True, text=True, check=False)
            self.svg = svg.read_text(encoding="utf-8") if svg.exists() else ""
            return done

    def points(self) -> list:
        """(what a point says, whether it is hollow), of those that say something: the others belong to the legend."""
        root = ElementTree.fromstring(self.svg)
        return [(c.find(SVG + "title").text, c.get("fill") == "none") for c in root.iter(SVG + "circle") if c.find(SVG + "title") is not None]

    def test_points_lie_where_their_numbers_say(self) -> None:
        self.assertEqual(self.draw({"profile": PROFILE}).returncode, 0)
        self.assertEqual(self.points(), [("linear: 1e+03 op/byte, 500 Gop/s", False), ("silu_mul: 1 op/byte, 5 Gop/s", True),
                                         ("linear: 1 op/byte, 10 Gop/s", False)])

    def test_phases_are_named_as_people_speak_of_them(self) -> None:
        self.draw({"quern": PROFILE}, "--groups", "3", "--title", "a < b")
        texts = " ".join(t.text for t in ElementTree.fromstring(self.svg).iter(SVG + "text"))
        for words in ("prefill, 512 tokens", "decode, 8 sequences", "decode, one sequence", "a < b", 'A <fast> & "wide" one', "memory 10.0 GB/s"):
            self.assertIn(words, texts)

    def test_what_is_no_profile_is_refused(self) -> None:
        self.assertIn("holds no profile", self.draw({"model": "x"}).stderr)


if __name__ == "__main__":
    unittest.main()
