#!/usr/bin/env python3
"""MB/s of encoding by Quern, Hugging Face `tokenizers`, llama.cpp and tiktoken: one thread, CPU time, in turns.

  tokenizer_peers.py MODEL.gguf TEXT [--bench build/release/bin/tokenizer_bench] [--llama-cpp SOURCE_FOLDER] [--tiktoken NAME] [--rounds 3]

Needs: pip install tokenizers gguf (tiktoken for --tiktoken, whose files it finds by TIKTOKEN_CACHE_DIR; its vocabulary is its own). The text
is given in documents of 4 kB and, where the peer can, as one. Printed is the best of the rounds.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/conformance"))
import tokenizer_conformance as conformance  # noqa: E402


def documents(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        end = text.find("\n", min(at + 4096, len(text)))
        end = len(text) if end < 0 else end + 1
        found.append(text[at:end])
        at = end
    return found


def seconds(run) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def quern(a) -> dict[str, float]:
    environment = os.environ | {"QUERN_BENCH_MODEL": a.model, "QUERN_BENCH_TEXT": a.text}
    out = subprocess.run([a.bench, "--benchmark_filter=^encode(/documents)?$", "--benchmark_format=json"], env=environment,
                         stdout=subprocess.PIPE, check=True).stdout
    times = {b["name"]: b["cpu_time"] / 1e3 for b in json.loads(out)["benchmarks"]}
    return {"quern, documents": times["encode/documents"], "quern, whole": times["encode"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--bench", default="build/release/bin/tokenizer_bench")
    parser.add_argument("--llama-cpp")
    parser.add_argument("--tiktoken")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    with open(a.text, encoding="utf-8", newline="") as f: text = f.read()
    parts, size = documents(text), len(text.encode())
    vocabulary = conformance.Vocabulary(a.model)
    peers = {}
    if vocabulary.has_oracle:
        library = vocabulary.hugging_face()
        peers["tokenizers, documents"] = lambda: [library.encode(d, add_special_tokens=False) for d in parts]
        peers["tokenizers, whole"] = lambda: library.encode(text, add_special_tokens=False)
    if a.llama_cpp:
        llama = conformance.LlamaCpp(a.llama_cpp, a.model)
        peers["llama.cpp, documents"] = lambda: [llama.count(d, True) for d in parts]
    if a.tiktoken:
        import tiktoken
        encoding = tiktoken.get_encoding(a.tiktoken)
        peers[f"tiktoken {a.tiktoken}, documents"] = lambda: [encoding.encode_ordinary(d) for d in parts]
        peers[f"tiktoken {a.tiktoken}, whole"] = lambda: encoding.encode_ordinary(text)
    best: dict[str, float] = {}
    for _ in range(a.rounds):
        for name, time_taken in quern(a).items(): best[name] = min(best.get(name, 1e9), time_taken)
        for name, run in peers.items(): best[name] = min(best.get(name, 1e9), seconds(run))
    for name, time_taken in best.items(): print(f"{name:40} {size / time_taken / 1e6:8.1f} MB/s")


if __name__ == "__main__":
    main()
