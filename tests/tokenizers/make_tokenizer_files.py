#!/usr/bin/env python3
"""Writes data/tokenizer_files.cases: small files of SentencePiece and tekken, and what their libraries make of some strings with them.

Needs: pip install sentencepiece==0.2.3 mistral-common==1.13.1. One JSON object a line: name, file (base64), strings, ids (no special tokens
parsed), decoded (of ids, special tokens left out).
"""
import base64
import io
import json
import sys
import tempfile
from pathlib import Path

import sentencepiece
from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "conformance"))
from tokenizer_strings import CODE, SCRIPTS, WORDS, make_strings  # noqa: E402

CORPUS = WORDS * 5 + CODE + SCRIPTS[:1] + SCRIPTS[6:8]
RULES = "FB01\t66 69\nFF21\t41\n41 30A\tC5\nA0\t20\n3000\t20\n200B\t\n2122\t54 4D\n"


def train(folder: Path, **options) -> bytes:
    rules = folder / "rules.tsv"
    rules.write_text(RULES)
    out = io.BytesIO()
    if options.pop("rules", False): options["normalization_rule_tsv"] = str(rules)
    else: options["normalization_rule_name"] = "identity"
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, minloglevel=2, hard_vocab_limit=False, character_coverage=0.98, **options)
    return out.getvalue()


def models(folder: Path):
    yield "Unigram", train(folder, model_type="unigram", vocab_size=190, rules=True)
    yield "Unigram, bytes, symbols", train(folder, model_type="unigram", vocab_size=450, byte_fallback=True, user_defined_symbols=["<x>", "  ", "e."], add_dummy_prefix=False)
    yield "Unigram, suffix", train(folder, model_type="unigram", vocab_size=190, treat_whitespace_as_suffix=True, remove_extra_whitespaces=False)
    yield "BPE", train(folder, model_type="bpe", vocab_size=220, rules=True)
    yield "BPE, bytes, symbols", train(folder, model_type="bpe", vocab_size=500, byte_fallback=True, remove_extra_whitespaces=False, user_defined_symbols=["<x>", "  ", "orld"])


def tekken() -> bytes:
    tokens = [bytes([b]) for b in range(256)] + [b"th", b"he", b"the", b" the", b"in", b"er", b"\xe4\xb8", b"aa", b"aaaa", b"  ", b" w", b"wor", b"or", b"world", b"ld"]
    vocab = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)]
    pattern = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    config = {"pattern": pattern, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) + 28, "default_num_special_tokens": 30, "version": "v3"}
    return json.dumps({"config": config, "vocab": vocab}).encode()


def main():
    with tempfile.TemporaryDirectory() as name, open(HERE / "data/tokenizer_files.cases", "w") as out:
        folder = Path(name)
        strings = [s.replace("\0", "") for s in make_strings(60, 7, ["<x>", "<x>world"]) if len(s) < 120]
        for label, data in models(folder):
            sp = sentencepiece.SentencePieceProcessor(model_proto=data)
            ids = sp.encode(strings)
            case = {"name": label, "file": base64.b64encode(data).decode(), "strings": strings, "ids": ids, "decoded": [sp.decode(i) if i else "" for i in ids]}
            out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")
        path = folder / "tekken.json"
        path.write_bytes(tekken())
        t = Tekkenizer.from_file(str(path))
        ids = [t.encode(s, bos=False, eos=False) for s in strings]
        case = {"name": "tekken", "file": base64.b64encode(path.read_bytes()).decode(), "strings": strings, "ids": ids,
                "decoded": [t.decode(i, SpecialTokenPolicy.IGNORE) for i in ids]}
        out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
