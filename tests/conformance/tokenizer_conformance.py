#!/usr/bin/env python3
"""Ids of `quern tokenize` for generated strings, against Hugging Face `tokenizers` and, where it is at hand, llama.cpp.

  tokenizer_conformance.py MODEL.gguf [--quern build/release/bin/quern] [--count 10000] [--seed 1] [--llama-cpp SOURCE_FOLDER] [-v]

Needs: pip install tokenizers gguf unicodedata2==16.0.0. Works for byte-level BPE models whose pre-tokenizer tests/tokenizers/make_oracle.py
has, and, against llama.cpp alone, for SentencePiece models ("llama" in GGUF). The strings hold all Unicode planes, combining marks, emoji with joiners, white space, digits, code and texts of special tokens; each is
encoded with special tokens parsed and without.

Two things on which the references themselves differ are kept from llama.cpp, not from `tokenizers`: code points newer than its Unicode 15
tables, and bytes that the vocabulary has no token for (`tokenizers` drops them before the merges, llama.cpp after). "Newer" is what this Python's own tables lack. SOURCE_FOLDER has
build/bin/libllama.so (or LLAMA_CPP_LIB_PATH says where that is) and python_llama_cpp/. Exit status 1 when any id differs.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys
import types
import unicodedata

import unicodedata2
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tokenizers"))
import make_oracle  # noqa: E402

CONTROL, USER_DEFINED = 3, 4


class Vocabulary:
    def __init__(self, path: str):
        fields = GGUFReader(path).fields
        def get(key, default=None):
            field = fields.get("tokenizer.ggml." + key)
            return field.contents() if field else default
        self.sentence_piece = get("model") == "llama"
        self.pre = "llama" if self.sentence_piece else get("pre", "default")
        self.tokens, self.types, self.merges = get("tokens"), get("token_type"), get("merges")

    def texts(self, wanted: int) -> list[str]:
        return [t for t, kind in zip(self.tokens, self.types) if kind == wanted]

    def hugging_face(self) -> Tokenizer:
        _, ignore_merges = make_oracle.PRE_TOKENIZERS[self.pre]
        merges = [tuple(m.split(" ", 1)) for m in self.merges]
        t = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(self.tokens)}, merges=merges, ignore_merges=ignore_merges))
        t.pre_tokenizer = make_oracle.pre_tokenizer(self.pre)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in self.texts(CONTROL)])
        t.add_tokens([AddedToken(x, special=False, normalized=False) for x in self.texts(USER_DEFINED)])
        return t

    def missing_bytes(self) -> set[int]:
        spelled = set("".join(t for t, kind in zip(self.tokens, self.types) if kind != CONTROL and len(t) == 1))
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        printable = [c for c in alphabet if ord(c) < 256]
        rest = iter(sorted(c for c in alphabet if ord(c) >= 256))
        byte_of = {c: ord(c) for c in printable}
        byte_of.update({next(rest): b for b in range(256) if chr(b) not in byte_of})
        return {b for c, b in byte_of.items() if c not in spelled}


def make_strings(count: int, seed: int, specials: list[str]) -> list[str]:
    r = random.Random(seed)
    code = pathlib.Path(__file__).read_text(encoding="utf-8")
    assigned = [c for chars in make_oracle.BY_CATEGORY.values() for c in chars]

    def piece() -> str:
        match r.randrange(6):
            case 0: return "".join(r.choice(assigned) for _ in range(r.randrange(1, 8)))
            case 1:
                at = r.randrange(len(code) - 80)
                return code[at: at + r.randrange(1, 80)]
            case 2: return r.choice(specials)[: r.choice([3, 7, 99, 99])] if specials else "<|x|>"
            case 3: return "".join(chr(r.randrange(33, 127)) for _ in range(r.randrange(1, 14)))
            case _: return make_oracle.make_string(r)
    return ["".join(piece() + " " * (r.random() < 0.3) for _ in range(r.randrange(1, 7))) for _ in range(count)]


def quern_ids(program: str, model: str, strings: list[str], parse_special: bool) -> list[list[int]]:
    command = [program, "tokenize", model, "--lines-json"] + ([] if parse_special else ["--no-special"])
    lines = "".join(json.dumps(s) + "\n" for s in strings)
    out = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
    answers = [json.loads(line)["ids"] for line in out.splitlines()]
    assert len(answers) == len(strings), f"{len(answers)} answers to {len(strings)} strings"
    return answers


class LlamaCpp:
    def __init__(self, root: str, model: str):
        os.environ.setdefault("LLAMA_CPP_LIB_PATH", os.path.join(root, "build/bin"))
        package = types.ModuleType("llama_cpp")
        package.__path__ = [os.path.join(root, "python_llama_cpp")]  # its module of bindings alone, without the package around it
        sys.modules["llama_cpp"] = package
        from llama_cpp import llama_cpp as lib
        self.lib, self.silent = lib, lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(self.silent, ctypes.c_void_p(0))
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.vocab_only = True
        self.vocab = lib.llama_model_get_vocab(lib.llama_model_load_from_file(model.encode(), params))
        self.buffer = (lib.llama_token * 65536)()

    def ids(self, text: str, parse_special: bool) -> list[int]:
        data = text.encode()
        return list(self.buffer[: self.lib.llama_tokenize(self.vocab, data, len(data), self.buffer, len(self.buffer), False, parse_special)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--quern", default="build/release/bin/quern")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--llama-cpp")
    parser.add_argument("-v", "--verbose", action="store_true")
    a = parser.parse_args()
    vocabulary = Vocabulary(a.model)
    if vocabulary.sentence_piece:
        if not a.llama_cpp: sys.exit("SentencePiece models are compared with llama.cpp: --llama-cpp")
    elif vocabulary.pre not in make_oracle.PRE_TOKENIZERS:
        sys.exit(f"no oracle for pre-tokenizer '{vocabulary.pre}'")
    strings = make_strings(a.count, a.seed, (vocabulary.texts(CONTROL) + vocabulary.texts(USER_DEFINED))[:50])
    reference = None if vocabulary.sentence_piece else vocabulary.hugging_face()
    peer = LlamaCpp(a.llama_cpp, a.model) if a.llama_cpp else None
    missing = set() if vocabulary.sentence_piece else vocabulary.missing_bytes()

    def peer_can(text: str) -> bool:
        if vocabulary.sentence_piece: return True  # it knows no categories
        newer = any(ord(c) > 127 and unicodedata2.category(c) != unicodedata.category(c) for c in text)  # Python's own tables are older
        return not newer and not missing.intersection(text.encode())

    failures = 0
    for parse_special in (True, False):
        ours = quern_ids(a.quern, a.model, strings, parse_special)
        columns = {}
        if reference:
            reference.encode_special_tokens = not parse_special
            theirs = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
            columns["tokenizers"] = list(zip(strings, ours, theirs))
        if peer:
            columns["llama.cpp"] = [(s, o, peer.ids(s, parse_special)) for s, o in zip(strings, ours) if peer_can(s)]
        for name, rows in columns.items():
            wrong = [row for row in rows if row[1] != row[2]]
            failures += len(wrong)
            print(f"{vocabulary.pre}, special tokens {'parsed' if parse_special else 'plain'}: {len(rows) - len(wrong)} of {len(rows)} equal to {name}")
            for text, ours_ids, their_ids in wrong[: 5 if a.verbose else 0]:
                print(f"  {text!r}\n    quern {ours_ids}\n    {name} {their_ids}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
