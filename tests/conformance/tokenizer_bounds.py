#!/usr/bin/env python3
"""Words of 10 MB for every kind of tokenizer, in bounded time and memory; and RWKV's tokenizer, on a vocabulary made here.

  tokenizer_bounds.py MODELS_FOLDER [--quern build/release/bin/quern] [--count 10000] [--seed 1] [-v]

MODELS_FOLDER has the vocabularies of llama.cpp's source package. A word is of one letter, of random letters, or of random characters outside
ASCII; a program that takes more than a minute of CPU time or 4 GiB fails. The oracle of RWKV is its definition: at each place the longest
token. Needs: pip install gguf. Exit status 1 when anything fails.
"""
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tokenizer_strings import make_strings  # noqa: E402
from tokenizer_suite import Quern, parse_arguments  # noqa: E402

KINDS = {"byte-level BPE": "gpt-2", "BPE over characters": "gemma-4", "SentencePiece BPE": "llama-spm", "Unigram": "nomic-bert-moe", "WordPiece": "bert-bge"}
WORD = 10_000_000
SECONDS, BYTES = 60, 4 << 30


def escaped(token: bytes) -> str:
    """As GGUF has tokens of RWKV: what is no printable ASCII character is spelled."""
    return "".join({9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\"}.get(b, chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in token)


def make_rwkv(path: pathlib.Path, strings: list[str], r: random.Random) -> dict[bytes, int]:
    """A vocabulary of all bytes and of parts of the strings; returns ids by token."""
    import gguf
    tokens = [bytes([b]) for b in range(256)]
    parts = set()
    for s in strings:
        data = s.encode()
        for _ in range(4):
            at = r.randrange(len(data) + 1)
            parts.add(data[at: at + r.choice([2, 2, 3, 3, 4, 5, 6, 8, 12, 20])])
    tokens += sorted(t for t in parts if len(t) > 1)
    writer = gguf.GGUFWriter(str(path), "rwkv7")
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(["<s>", *map(escaped, tokens)])
    writer.add_token_types([3] + [1] * len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return {t: i + 1 for i, t in enumerate(tokens)}


def longest_match(ids: dict[bytes, int], data: bytes) -> list[int]:
    longest, out, at = max(map(len, ids)), [], 0
    while at < len(data):
        end = next(e for e in range(min(at + longest, len(data)), at, -1) if data[at:e] in ids)
        out.append(ids[data[at:end]])
        at = end
    return out


def words(r: random.Random) -> dict[str, str]:
    letters = bytes(r.choices(b"abcdefghijklmnopqrstuvwxyz", k=WORD)).decode()
    return {"one letter": "a" * WORD, "random letters": letters, "no ASCII": "".join(r.choices("éßжשع日本語한🦆", k=WORD // 3))}


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def main() -> int:
    a = parse_arguments(__doc__)
    folder_of_models = a.paths[0]
    r = random.Random(a.seed)
    held = total = 0
    with tempfile.TemporaryDirectory() as folder:
        rwkv = pathlib.Path(folder) / "rwkv.gguf"
        strings = make_strings(a.count, a.seed)
        ids = make_rwkv(rwkv, strings[: max(a.count // 2, 1)], r)
        wanted = [longest_match(ids, s.encode()) for s in strings]
        quern = Quern(a.quern, rwkv)
        got, texts = quern.encode(strings, "--no-special"), quern.decode(wanted)
        for what, ours, theirs in (("encode", got, wanted), ("decode", texts, strings)):
            wrong = [i for i in range(len(strings)) if ours[i] != theirs[i]]
            held, total = held + len(strings) - len(wrong), total + len(strings)
            print(f"RWKV, {what}: {len(strings) - len(wrong)} of {len(strings)} equal", flush=True)
            for i in wrong[: 5 if a.verbose else 0]: print(f"  {strings[i]!r}\n    quern     {ours[i]!r}\n    reference {theirs[i]!r}")
        models = {kind: folder_of_models / f"ggml-vocab-{name}.gguf" for kind, name in KINDS.items()} | {"RWKV": rwkv}
        for name, word in words(r).items():
            line = (json.dumps(word, ensure_ascii=False) + "\n").encode()
            for kind, model in models.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                done = subprocess.run([a.quern, "tokenize", str(model), "--lines-json"], input=line, stdout=subprocess.DEVNULL, preexec_fn=limit)
                took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
                held, total = held + (done.returncode == 0), total + 1
                print(f"a word of 10 MB, {name}, {kind}: {'done' if done.returncode == 0 else f'FAILED ({done.returncode})'} in {took:.1f} s", flush=True)
    print(f"{held} of {total} hold")
    return 0 if held == total else 1


if __name__ == "__main__":
    sys.exit(main())
