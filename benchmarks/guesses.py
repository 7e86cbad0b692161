#!/usr/bin/env python3
"""What guessed tokens are worth: tokens a second of an answer with guesses from the text against none, on prompts whose answers repeat
much (texts and code to be changed, quotes) and on such as do not (a story, a chat).

  guesses.py MODEL.gguf [--quern build/release/bin/quern] [--rounds 3]

Alternating; prints medians, their ratio, and how many guesses were right.
"""
import argparse
import re
import statistics
import subprocess

TEXT = ("The fox walked along the river and saw a small boat tied to a tree. The boat was painted blue and white, and its sail was folded under a "
        "bench. The fox had never sailed before, but the wind was calm and the water was smooth, so the fox climbed in, untied the rope, and pushed "
        "away from the bank with one paw.")
CODE = """def total(items):
    result = 0
    for item in items:
        result += item.price * item.count
    return result

def average(items):
    if not items:
        return 0
    return total(items) / len(items)
"""
PEOPLE = '[{"name": "Anna", "city": "London", "age": 31}, {"name": "Bob", "city": "Berlin", "age": 45}, {"name": "Carl", "city": "Madrid", "age": 27}]'
PROMPTS = {  # name: prompt, temperature
    "correct": ("Correct the spelling of this text and change nothing else:\n\n" + TEXT.replace("walked", "walkd"), 0),
    "rename": ('Repeat the following text, with "fox" replaced by "cat":\n\n' + TEXT, 0),
    "type hints": ("Rewrite this code with type hints:\n\n" + CODE, 0),
    "docstrings": ("Add a docstring to each function and print the whole code again:\n\n" + CODE, 0),
    "json": ("Change the city of Bob to Paris and print the whole JSON:\n\n" + PEOPLE, 0),
    "quotes": ("Give the main points of this text as a list of quotes:\n\n" + TEXT, 0),
    "summary": ("Summarise this text, quoting its sentences:\n\n" + TEXT, 0),
    "story": ("Write a story about a fox who learns to sail.", 0),
    "chat": ("Why is the sky blue?", 0),
    "list": ("List twenty European capitals with their countries.", 0),
    "poem": ("Write a poem about the sea.", 1),
}


def run(quern, model, prompt, temperature, more):
    command = [quern, "run", model, "--temp", str(temperature), "--seed", "1", "-n", "250", "-v", "-p", prompt, *more]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    speed = re.search(r"answer \d+ tokens in [\d.]+ s \(([\d.]+)", said.stderr)
    right = re.search(r"\d+ of \d+ guesses", said.stderr)
    return float(speed[1]), right[0] if right else "no guesses"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--quern", default="build/release/bin/quern")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for name, (prompt, temperature) in PROMPTS.items():
        with_guesses, without, right = [], [], ""
        for i in range(args.rounds):
            for off in (False, True) if i % 2 == 0 else (True, False):
                speed, said = run(args.quern, args.model, prompt, temperature, ["--no-lookup"] if off else [])
                (without if off else with_guesses).append(speed)
                right = right if off else said
        a, b = statistics.median(with_guesses), statistics.median(without)
        print(f"{name:11} {a:7.1f} {b:7.1f} tokens/s {a / b:5.2f}x  {right}", flush=True)


if __name__ == "__main__":
    main()
