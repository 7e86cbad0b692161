"""What the suites of tokenizers share: their options, `quern tokenize` as a program that answers lines, and a count of what is equal."""
import argparse
import json
import pathlib
import random
import subprocess


def parse_arguments(doc: str, paths: str = "paths", **more: dict) -> argparse.Namespace:
    """`more`: further options, each with the keywords of add_argument."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument(paths, nargs="+", type=pathlib.Path)
    parser.add_argument("--quern", default="build/release/bin/quern")
    parser.add_argument("--count", type=int, default=10000, help="generated strings a tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    for name, keywords in more.items(): parser.add_argument("--" + name.replace("_", "-"), **keywords)
    return parser.parse_args()


class Quern:
    def __init__(self, program: str, path):
        self.command = [program, "tokenize", str(path), "--lines-json"]

    def lines(self, values: list, *flags: str) -> list[dict]:
        text = "".join(json.dumps(v) + "\n" for v in values)
        done = subprocess.run([*self.command, *flags], input=text.encode(), stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(values), f"{len(answers)} answers to {len(values)} lines"
        return answers

    def encode(self, strings: list, *flags: str) -> list[list[int]]: return [a["ids"] for a in self.lines(strings, *flags)]
    def decode(self, ids: list[list[int]], *flags: str) -> list[str]: return [a["text"] for a in self.lines(ids, *flags)]


class Report:
    def __init__(self, verbose: bool): self.verbose, self.failures, self.total = verbose, 0, 0

    def compare(self, name: str, inputs: list, ours: list, theirs: list) -> None:
        wrong = [i for i in range(len(inputs)) if ours[i] != theirs[i]]
        self.failures += len(wrong)
        self.total += len(inputs)
        print(f"{name}: {len(inputs) - len(wrong)} of {len(inputs)} equal", flush=True)
        for i in wrong[: 5 if self.verbose else 0]: print(f"  {inputs[i]!r}\n    quern   {ours[i]!r}\n    library {theirs[i]!r}")


def random_ids(size: int, count: int, seed: int) -> list[list[int]]:
    r = random.Random(seed)
    return [[r.randrange(size) for _ in range(r.randrange(1, 12))] for _ in range(count)]
