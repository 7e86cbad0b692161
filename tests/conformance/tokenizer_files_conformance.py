#!/usr/bin/env python3
"""Ids and text of `quern tokenize` for tokenizers' own files, against the libraries that define them.

  tokenizer_files_conformance.py FILE|FOLDER... [--quern build/release/bin/quern] [--count 10000] [--seed 1] [-v]

Folders are searched for files that Quern reads. tokenizer.json is compared with `tokenizers`. Needs: pip install tokenizers==0.23.3. Each string
is encoded with special tokens parsed and without; decoded are the ids of each string, and random ids. Exit status 1 when anything differs.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tokenizer_strings import make_strings  # noqa: E402


class Quern:
    def __init__(self, program: str, path: pathlib.Path):
        self.command = [program, "tokenize", str(path), "--lines-json"]

    def lines(self, values: list, *flags: str) -> list:
        text = "".join(json.dumps(v) + "\n" for v in values)
        done = subprocess.run([*self.command, *flags], input=text.encode(), stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(values), f"{len(answers)} answers to {len(values)} lines"
        return answers

    def encode(self, strings: list[str], *flags: str) -> list[list[int]]: return [a["ids"] for a in self.lines(strings, *flags)]
    def decode(self, ids: list[list[int]], *flags: str) -> list[str]: return [a["text"] for a in self.lines(ids, *flags)]


class Report:
    def __init__(self, verbose: bool): self.verbose, self.failures = verbose, 0

    def compare(self, name: str, inputs: list, ours: list, theirs: list) -> None:
        wrong = [i for i in range(len(inputs)) if ours[i] != theirs[i]]
        self.failures += len(wrong)
        print(f"{name}: {len(inputs) - len(wrong)} of {len(inputs)} equal")
        for i in wrong[: 5 if self.verbose else 0]: print(f"  {inputs[i]!r}\n    quern   {ours[i]!r}\n    library {theirs[i]!r}")


def random_ids(size: int, count: int, seed: int) -> list[list[int]]:
    r = random.Random(seed)
    return [[r.randrange(size) for _ in range(r.randrange(1, 12))] for _ in range(count)]


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
        shown = [[i for i in row if not (flags and i in added and added[i].special)] for row in ids]
        theirs = [reference.decode(row, skip_special_tokens=False) if row else "" for row in shown]
        report.compare(f"{name} decode {' '.join(flags)}", ids, quern.decode(ids, *flags), theirs)
    # Begin and end tokens: Quern does not double one that the text has, so only strings without any.
    plain = [s for s in strings[:1000] if not any(t in s for t in specials)]
    theirs = [e.ids for e in reference.encode_batch(plain, add_special_tokens=True)]
    report.compare(f"{name} encode --add-special", plain, quern.encode(plain, "--add-special"), theirs)


KINDS = {"tokenizer.json": tokenizer_json}


def kind_of(path: pathlib.Path):
    return next((check for ending, check in KINDS.items() if path.name.endswith(ending)), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--quern", default="build/release/bin/quern")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    a = parser.parse_args()
    report = Report(a.verbose)
    for path in a.paths:
        for file in sorted(p for p in path.rglob("*") if kind_of(p)) if path.is_dir() else [path]:
            try:
                kind_of(file)(file, a, report)
            except Exception as error:  # the next file may still be compared
                print(f"{file}: {type(error).__name__}: {error}")
                report.failures += 1
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
