#!/usr/bin/env python3
"""How long a render takes, beside jinja2: every template of a folder x the conversations of the conformance suite, both in process.

  templates_speed.py FOLDER [--driver build/release/bin/template_render] [-v]

A template is compiled once on both sides; the time is the least of many renders. Prints the median ratio, and our median time.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(root / "tests" / "templates"), str(root / "tests" / "conformance")]
import oracle  # noqa: E402
import templates_conformance  # noqa: E402


def fastest(template, context, seconds=0.02):
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end or best == 1e9:
        start = time.perf_counter()
        template.render(**context)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--driver", default="build/release/bin/template_render")
    parser.add_argument("-v", action="store_true", help="a line a template")
    args = parser.parse_args()
    driver = subprocess.Popen([args.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    environment = oracle.environment()
    ratios, times = [], []
    for path in sorted(args.folder.glob("*.jinja")):
        source, own = path.read_text(encoding="utf-8"), []
        try:
            template = environment.from_string(source)
        except Exception:  # what jinja2 does not compile has no time
            continue
        for context in templates_conformance.conversations().values():
            context = dict(context, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
            try:
                theirs = fastest(template, context)
            except Exception:
                continue
            driver.stdin.write(json.dumps({"source": source, "context": context, "now": oracle.NOW, "times": 200}) + "\n")
            driver.stdin.flush()
            answer = json.loads(driver.stdout.readline())
            if "seconds" not in answer:  # changes a list of its own messages: refused by the sandbox that refuses nothing else
                sys.exit(f"{path.name}: {answer}")
            ours = answer["seconds"]
            own.append(theirs / ours)
            times.append(ours)
        ratios += own
        if own and args.v:
            print(f"{path.name}: {statistics.median(own):.1f} times as fast")
    print(f"{len(ratios)} renders: {statistics.median(ratios):.1f} times as fast as jinja2 (median; least {min(ratios):.1f}); "
          f"{statistics.median(times) * 1e6:.1f} µs (median; most {max(times) * 1e6:.1f})")


if __name__ == "__main__":
    main()
