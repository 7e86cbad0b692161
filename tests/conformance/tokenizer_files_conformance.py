#!/usr/bin/env python3
"""Ids and text of `quern tokenize` for tokenizers' own files, against the libraries that define them.

  tokenizer_files_conformance.py FILE|FOLDER... [--quern build/release/bin/quern] [--count 10000] [--seed 1] [-v]

Folders are searched for files that Quern reads. Needs: pip install tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 mistral-common==1.13.1. Each string
is encoded with special tokens parsed and without; decoded are the ids of each string, and random ids. Exit status 1 when anything differs.
"""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tokenizer_strings import make_strings  # noqa: E402
from tokenizer_suite import Quern, Report, parse_arguments, random_ids  # noqa: E402


# Quern takes these for special tokens whatever a file says.
TURN_ENDS = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|end|>", "<|eot_id|>", "<|return|>", "<|call|>", "<end_of_turn>"}


def tokenizer_json(path: pathlib.Path, a, report: Report) -> None:
    """Against Hugging Face's library, truncation and padding off."""
    from tokenizers import Tokenizer
    name = "/".join(path.parts[-3:])
    try:
        reference = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:
        print(f"{name}: the library does not read it: {error}")
        return
    reference.no_truncation()
    reference.no_padding()
    added = reference.get_added_tokens_decoder()
    specials = [t.content for t in added.values()]
    strings = make_strings(a.count, a.seed, specials[:40])
    quern = Quern(a.quern, path)
    for flags in ([], ["--no-special"]):
        reference.encode_special_tokens = bool(flags)
        theirs = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
        report.compare(f"{name} encode {' '.join(flags)}", strings, quern.encode(strings, *flags), theirs)
    reference.encode_special_tokens = False
    ids = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)] + random_ids(reference.get_vocab_size(), a.count // 4, a.seed)
    for flags in ([], ["--no-special"]):
        # The library shows a special token after all where its normalised text differs from its text; Quern shows none.
        hidden = {i for i, t in added.items() if t.special} | {i for t, i in reference.get_vocab().items() if t in TURN_ENDS}
        shown = [[i for i in row if not (flags and i in hidden)] for row in ids]
        theirs = [reference.decode(row, skip_special_tokens=False) if row else "" for row in shown]
        report.compare(f"{name} decode {' '.join(flags)}", ids, quern.decode(ids, *flags), theirs)
    # Begin and end tokens: Quern does not double one that the text has, so only strings without any.
    plain = [s for s in strings[:1000] if not any(t in s for t in specials)]
    theirs = [e.ids for e in reference.encode_batch(plain, add_special_tokens=True)]
    report.compare(f"{name} encode --add-special", plain, quern.encode(plain, "--add-special"), theirs)


def sentence_piece(path: pathlib.Path, a, report: Report) -> None:
    """Against SentencePiece's own library, which parses no control tokens and shows none."""
    from sentencepiece import SentencePieceProcessor
    reference = SentencePieceProcessor(model_file=str(path))
    pieces = [reference.id_to_piece(i) for i in range(reference.vocab_size())]
    user_defined = [p for p in pieces if p.startswith("<") or "\u2581\u2581" in p]
    strings = [s.replace("\0", "") for s in make_strings(a.count, a.seed, user_defined[:30])]
    quern = Quern(a.quern, path)
    theirs = reference.encode(strings)
    report.compare(f"{path.name} encode", strings, quern.encode(strings, "--no-special"), theirs)
    ids = theirs + random_ids(reference.vocab_size(), a.count // 4, a.seed)
    report.compare(f"{path.name} decode", ids, quern.decode(ids, "--no-special"), [reference.decode(i) if i else "" for i in ids])


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HAN_CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]%s(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join([r"[\p{Han}]+", HAN_CASED % ("*", "+"), HAN_CASED % ("+", "*"), r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def tiktoken_ranks(path: pathlib.Path, a, report: Report) -> None:
    """Against tiktoken, whose encodings are told by the number of ranks as Quern does."""
    import base64
    import inspect

    import tiktoken
    from tiktoken_ext import openai_public
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_text().splitlines() if line)}
    source = inspect.getsource(openai_public.cl100k_base)
    cl100k = source.split('"pat_str": r"""')[1].split('"""')[0]
    o200k = "|".join(part.split('"""')[0] for part in inspect.getsource(openai_public.o200k_base).split('r"""')[1:])
    pattern = {50256: openai_public.r50k_pat_str, 50280: openai_public.r50k_pat_str, 100256: cl100k, 199998: o200k, 128000: LLAMA3, 163584: KIMI}[len(ranks)]
    reference = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    strings = make_strings(a.count, a.seed)
    quern, name = Quern(a.quern, path), "/".join(path.parts[-2:])
    theirs = [reference.encode_ordinary(s) for s in strings]
    report.compare(f"{name} encode", strings, quern.encode(strings, "--no-special"), theirs)
    known = sorted(ranks.values())
    ids = theirs + [[known[i] for i in row] for row in random_ids(len(known), a.count // 4, a.seed)]
    report.compare(f"{name} decode", ids, quern.decode(ids), [reference.decode(i) for i in ids])


def tekken(path: pathlib.Path, a, report: Report) -> None:
    """Against mistral-common."""
    from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer
    reference = Tekkenizer.from_file(str(path))
    strings = make_strings(a.count, a.seed)
    quern = Quern(a.quern, path)
    theirs = [reference.encode(s, bos=False, eos=False) for s in strings]
    report.compare(f"{path.name} encode", strings, quern.encode(strings, "--no-special"), theirs)
    report.compare(f"{path.name} encode --add-special", strings[:1000], quern.encode(strings[:1000], "--no-special", "--add-special"),
                   [reference.encode(s, bos=True, eos=False) for s in strings[:1000]])
    # Random ids of one kind each: the library shows a character that a special token cuts in two as two pieces of one.
    ids = theirs + [[i for i in row if i >= reference.num_special_tokens] for row in random_ids(reference.n_words, a.count // 4, a.seed)]
    report.compare(f"{path.name} decode", ids, quern.decode(ids, "--no-special"), [reference.decode(i, SpecialTokenPolicy.IGNORE) for i in ids])


def kind_of(path: pathlib.Path):
    """What compares the file, told by its name and first bytes; nothing: Quern does not read it."""
    if not path.is_file(): return None
    if path.name.startswith("tekken") and path.suffix == ".json": return tekken
    if path.name.endswith("tokenizer.json"): return tokenizer_json
    start = path.open("rb").read(64)
    if start.startswith(b"IQ== 0") or path.suffix == ".tiktoken": return tiktoken_ranks
    if ".model" in path.name and start.startswith(b"\n"): return sentence_piece
    return None


def main() -> int:
    a = parse_arguments(__doc__)
    report = Report(a.verbose)
    for path in a.paths:
        for file in sorted(p for p in path.rglob("*") if kind_of(p)) if path.is_dir() else [path]:
            try:
                kind_of(file)(file, a, report)
            except Exception as error:  # the next file may still be compared
                print(f"{file}: {type(error).__name__}: {error}")
                report.failures += 1
    print(f"{report.total - report.failures} of {report.total} equal")
    return 1 if report.failures or not report.total else 0


if __name__ == "__main__":
    sys.exit(main())
