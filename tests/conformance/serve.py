#!/usr/bin/env python3
# The server: unmodified clients of OpenAI (Python and node) against quern serve
"""Fetches the clients (pip, npm) into a cache, starts `quern serve MODEL`, and runs serve_openai.py and serve_openai.mjs against it.

  ./dev conformance serve [MODEL.gguf]        without MODEL the default one of ./dev run, which must be there already

The cache is $XDG_CACHE_HOME/quern/conformance, or ~/.cache/quern/conformance. What is not to be had (node, the network) is skipped, and said.
Exit status 1 when any check fails.
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CACHE_ROOT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quern"
CACHE = CACHE_ROOT / "conformance"
OPENAI, OPENAI_NODE = "openai==3.57.0", "openai"
KEY = "a-key-for-tests"


def say(text):
    print(f"serve: {text}", file=sys.stderr, flush=True)


def python_with_client():
    folder = CACHE / "openai-python"
    python = folder / "bin" / "python"
    if subprocess.run([python, "-c", "import openai"], capture_output=True).returncode if python.exists() else True:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", OPENAI], check=True)
    return python


def folder_with_node_client():
    folder = CACHE / "openai-node"
    if not (folder / "node_modules" / "openai").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, OPENAI_NODE], check=True)
    return folder


def start(quern, model, *more):
    server = subprocess.Popen([quern, "serve", model, "--port", "0", *more], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        sys.exit(f"serve: the server says {line!r}")
    return server, line.split()[-1]


def main():
    quern = os.environ.get("QUERN", str(HERE.parent.parent / "build/release/bin/quern"))
    model = sys.argv[1] if len(sys.argv) > 1 else str(CACHE_ROOT / "models" / "smollm2-135m-instruct-q4_1.gguf")
    if not os.path.exists(model):
        sys.exit(f"serve: there is no {model}; ./dev run -p Hello fetches it")
    failed = []
    server, url = start(quern, model, "--api-key", KEY, "--served-model-name", "tiny", "--ctx", "2048")
    try:
        environment = {**os.environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}
        if subprocess.run([python_with_client(), HERE / "serve_openai.py"], env=environment).returncode:
            failed.append("python")
        if shutil.which("node") and shutil.which("npm"):
            folder = folder_with_node_client()
            script = folder / "serve_openai.mjs"  # beside the packages, where node looks for them
            shutil.copy(HERE / "serve_openai.mjs", script)
            if subprocess.run(["node", script], env=environment).returncode:
                failed.append("node")
        else:
            say("node is not there: its client is skipped")
    finally:
        server.terminate()
        if server.wait(20):
            failed.append(f"the server ended with {server.returncode}")
    if failed:
        sys.exit(f"serve: failed: {', '.join(failed)}")
    say("all passed")


if __name__ == "__main__":
    main()
