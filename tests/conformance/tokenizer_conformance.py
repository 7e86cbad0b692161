#!/usr/bin/env python3
"""Ids and text of `quern tokenize` for the vocabularies of GGUF files, against vectors, Hugging Face `tokenizers` and llama.cpp.

  tokenizer_conformance.py FILE.gguf|FOLDER... [--quern build/release/bin/quern] [--count 10000] [--seed 1] [--llama-cpp SOURCE_FOLDER] [-v]

Needs: pip install tokenizers sentencepiece gguf unicodedata2==16.0.0. What is compared, as far as it can be for a file:
  - the vectors beside it, FILE.gguf.inp and .out (llama.cpp's source package has them in models/);
  - for SentencePiece's and BERT's vocabularies, generated strings against `sentencepiece` and `tokenizers`, plain, and decoding;
  - for byte-level BPE, and for BPE over characters (Gemma 4), generated strings against `tokenizers`: ids with special tokens parsed and
    plain, malformed UTF-8, and the text that ids become;
  - against llama.cpp, where --llama-cpp says where it is (build/bin/libllama.so, or LLAMA_CPP_LIB_PATH, and python_llama_cpp/).
The strings hold all Unicode planes, combining marks, emoji with joiners, white space, digits, code and texts of special tokens.

Two things on which the references themselves differ are kept from llama.cpp, not from `tokenizers`: code points newer than its Unicode 15
tables, and bytes that the vocabulary has no token for (`tokenizers` drops them before the merges, llama.cpp after). "Newer" is what this
Python's own tables lack. Left out of decoding are added tokens whose text is also a spelling of bytes, such as "õ": `tokenizers` makes bytes
of what it encoded as that text. Exit status 1 when anything differs.
"""
import ctypes
import os
import pathlib
import random
import re
import subprocess
import sys
import types
import unicodedata

import unicodedata2
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "tokenizers")]
import make_oracle  # noqa: E402
from sentence_piece_file import model_file  # noqa: E402
from tokenizer_suite import Quern, Report, parse_arguments, random_ids  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
TURN_ENDS = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>"}  # control tokens whatever the file says
VECTOR_END = "\n__ggml_vocab_test__\n"


def first_names() -> dict[str, str]:
    """For each name of a pre-tokenizer, the first of its row, which the oracle knows it by."""
    source = pathlib.Path(__file__).resolve().parents[2] / "src/tokenizers/detail/pre_tokenizer.cc"
    rows = [re.findall(r'"([^"]*)"', row) for row in re.findall(r'\{\{("[^}]*")\}', source.read_text(encoding="utf-8"))]
    return {name: row[0] for row in rows for name in row}


class Vocabulary:
    def __init__(self, path: str):
        fields = GGUFReader(path).fields
        def get(key, default=None):
            field = fields.get("tokenizer.ggml." + key)
            return field.contents() if field else default
        self.model = get("model")
        pre = "gemma4" if self.model == "gemma4" else get("pre", "default")
        self.pre = first_names().get(pre, pre) if self.model in ("gpt2", "gemma4") else self.model
        self.tokens, self.types, self.merges = get("tokens"), get("token_type"), get("merges")
        self.types = self.types or [1] * len(self.tokens)
        self.scores = get("scores", [0.0] * len(self.tokens))
        self.charsmap = bytes(c & 255 for c in get("precompiled_charsmap", []))
        self.dummy_prefix, self.squeezes = get("add_space_prefix", True), get("remove_extra_whitespaces", False)
        self.types = [CONTROL if t in TURN_ENDS else kind for t, kind in zip(self.tokens, self.types)]

    @property
    def has_oracle(self) -> bool: return self.model in ("gpt2", "gemma4") and self.pre in [*make_oracle.PRE_TOKENIZERS, "gemma4"]

    def texts(self, wanted: int) -> list[str]:
        return [t for t, kind in zip(self.tokens, self.types) if kind == wanted]

    def hugging_face(self) -> Tokenizer:
        characters = self.pre == "gemma4"
        ignore_merges = not characters and make_oracle.PRE_TOKENIZERS[self.pre][1]
        merges = [tuple(m.split(" ", 1)) for m in self.merges]
        vocab = {t: i for i, t in enumerate(self.tokens)}
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges, byte_fallback=characters))
        if characters:
            t.normalizer = normalizers.Replace(" ", "▁")
            t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        else:
            if self.pre in make_oracle.COMPOSED: t.normalizer = normalizers.NFC()
            t.pre_tokenizer = make_oracle.pre_tokenizer(self.pre)
            t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in self.texts(CONTROL) + self.texts(UNKNOWN)])
        t.add_tokens([AddedToken(x, special=False, normalized=False) for x in self.texts(USER_DEFINED)])
        return t

    def sentence_piece(self) -> bytes:
        return model_file(self.tokens, self.scores, self.types, self.model == "t5", self.charsmap, self.dummy_prefix, self.squeezes)

    def word_piece(self) -> Tokenizer:
        """As BERT has it; GGUF marks tokens that begin a word."""
        spelled = [t if kind != NORMAL else t[1:] if t.startswith("▁") else "##" + t for t, kind in zip(self.tokens, self.types)]
        t = Tokenizer(models.WordPiece({t: i for i, t in enumerate(spelled)}, unk_token="[UNK]", max_input_chars_per_word=100))
        cased = any("A" <= c <= "Z" for t, kind in zip(self.tokens, self.types) if kind == NORMAL for c in t)
        t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        return t

    def missing_bytes(self) -> set[int]:
        if self.model != "gpt2": return set()
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


def spoil(strings: list[str], seed: int) -> list[bytes]:
    """Some bytes changed, put in or left out, so that most are not UTF-8."""
    r = random.Random(seed)
    def one(data: bytearray) -> bytes:
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(len(data) + 1)
            match r.randrange(3):
                case 0: data[at:at] = bytes([r.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xF5, 0xFF, r.randrange(256)])])
                case 1: del data[at: at + 1]
                case _: data[at: at + 1] = bytes([r.randrange(128, 256)])
        return bytes(data)
    return [one(bytearray(s.encode())) for s in strings]


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

    def count(self, text: str, parse_special: bool) -> int:
        data = text.encode()
        return self.lib.llama_tokenize(self.vocab, data, len(data), self.buffer, len(self.buffer), False, parse_special)


def plain_text(path: pathlib.Path, name: str, vocabulary: Vocabulary, a, report: Report) -> None:
    """SentencePiece's and BERT's vocabularies, whose libraries parse no control tokens out of text. Words that users define are left out: the
    text behind them begins anew in GGUF, and in the models' own tokenizers, but not for SentencePiece."""
    words = [t for t in vocabulary.texts(USER_DEFINED) if t.strip(" \t\n▁")]
    strings = [s.replace("\0", "") for s in make_strings(a.count, a.seed, vocabulary.texts(CONTROL)[:50])]
    strings = [s for s in strings if not any(w in s for w in words)]
    quern, flags = Quern(a.quern, path), ["--no-special"]
    if vocabulary.model == "bert":
        reference = vocabulary.word_piece()
        library, theirs = "tokenizers", [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
        decode = lambda row: reference.decode(row, skip_special_tokens=False)
        known, flags = [i for i, kind in enumerate(vocabulary.types) if kind == NORMAL], []
    else:
        from sentencepiece import SentencePieceProcessor
        reference = SentencePieceProcessor(model_proto=vocabulary.sentence_piece())
        library, theirs, decode = "sentencepiece", reference.encode(strings), reference.decode
        known = [i for i, kind in enumerate(vocabulary.types) if kind in (NORMAL, USER_DEFINED) and reference.id_to_piece(i) == vocabulary.tokens[i]]
    report.compare(f"{name}, {library}", strings, quern.encode(strings, "--no-special"), theirs)
    rows = [row for row in theirs if row] + [[known[i] for i in row] for row in random_ids(len(known), a.count // 4, a.seed)]
    report.compare(f"{name}, decode, {library}", rows, quern.decode(rows, *flags), [decode(row) for row in rows])


def compare_file(path: pathlib.Path, a, report: Report) -> None:
    model, name = str(path), path.name.removesuffix(".gguf").removeprefix("ggml-vocab-")
    quern = Quern(a.quern, path)
    vectors = path.with_name(path.name + ".inp")
    if vectors.exists():
        with open(vectors, encoding="utf-8", newline="") as f: texts = f.read().split(VECTOR_END)
        with open(path.with_name(path.name + ".out"), encoding="utf-8") as f: rows = f.read().split("\n")
        texts = texts[:-1] if not texts[-1] else texts
        report.compare(f"{name}, vectors", texts, quern.encode(texts, "--no-special"), [[int(i) for i in row.split()] for row in rows])
    vocabulary = Vocabulary(model)
    reference = vocabulary.hugging_face() if vocabulary.has_oracle else None
    peer = LlamaCpp(a.llama_cpp, model) if a.llama_cpp else None
    if vocabulary.model in ("bert", "llama", "t5") and not peer: return plain_text(path, name, vocabulary, a, report)
    if not reference and not peer: return
    strings = make_strings(a.count, a.seed, (vocabulary.texts(CONTROL) + vocabulary.texts(USER_DEFINED))[:50])
    missing = vocabulary.missing_bytes()

    def peer_can(text: str) -> bool:
        if vocabulary.model == "llama": return True  # it knows no categories
        newer = any(ord(c) > 127 and unicodedata2.category(c) != unicodedata.category(c) for c in text)  # Python's own tables are older
        return not newer and not missing.intersection(text.encode())

    for flags in ([], ["--no-special"]):
        ours = quern.encode(strings, *flags)
        what = f"special tokens {'plain' if flags else 'parsed'}"
        if reference:
            reference.encode_special_tokens = bool(flags)
            theirs = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
            report.compare(f"{name}, {what}, tokenizers", strings, ours, theirs)
        if peer:
            able = [i for i, s in enumerate(strings) if peer_can(s)]
            given = [strings[i] for i in able]
            report.compare(f"{name}, {what}, llama.cpp", given, [ours[i] for i in able], [peer.ids(s, not flags) for s in given])
    if not reference: return
    spoilt = spoil(strings, a.seed)
    ours = quern.encode([{"bytes": list(s)} for s in spoilt], "--no-special")
    theirs = [e.ids for e in reference.encode_batch([s.decode("utf-8", "replace") for s in spoilt], add_special_tokens=False)]
    report.compare(f"{name}, malformed UTF-8, tokenizers", spoilt, ours, theirs)
    rows = theirs + random_ids(len(vocabulary.tokens), a.count // 4, a.seed)
    known = set(reference.get_vocab(with_added_tokens=True).values())  # of several tokens with one text it has the last
    spelling = set(pre_tokenizers.ByteLevel.alphabet())
    odd = {i for i, (t, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types)) if kind == USER_DEFINED and not t.isascii() and spelling.issuperset(t)}
    rows = [row for row in rows if known.issuperset(row) and not odd.intersection(row)]
    theirs = [reference.decode(row, skip_special_tokens=False) if row else "" for row in rows]
    report.compare(f"{name}, decode, tokenizers", rows, quern.decode(rows), theirs)


def main() -> int:
    a = parse_arguments(__doc__, llama_cpp={})
    report = Report(a.verbose)
    for path in a.paths:
        for file in sorted(path.glob("*.gguf")) if path.is_dir() else [path]:
            try:
                compare_file(file, a, report)
            except subprocess.CalledProcessError:  # quern said why; the next file may still be compared
                report.failures += 1
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
