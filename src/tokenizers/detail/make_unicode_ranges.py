#!/usr/bin/env python3
"""Writes unicode_categories.inc and unicode_scripts.inc beside itself: general category and script of every code point, from Unicode 16.0.

    pip install unicodedata2==16.0.0 fonttools==4.55.0 && ./make_unicode_ranges.py

Each number is (first code point << 8 | value); a range ends where the next begins. The version is pinned so that the same text gives the
same tokens wherever the program was built; it is the one the reference libraries use.
"""
import bisect
import pathlib

import unicodedata2 as unicode
from fontTools.unicodedata import Scripts

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()  # as unicode.h


def ranges(value_of) -> list[str]:
    numbers, previous = [], None
    for code in range(0x110000):
        value = value_of(code)
        if value != previous:
            numbers.append(f"{code << 8 | value:#x},")
            previous = value
    return numbers


def lines(items: list[str]):
    line = ""
    for item in items:
        if len(line) + 1 + len(item) > 140:
            yield line
            line = ""
        line += (" " if line else "") + item
    yield line


def write(name: str, what: str, *parts) -> None:
    text = [f"// Made by make_unicode_ranges.py from Unicode 16.0.0: {what}."]
    for part in parts:
        text += part
    (pathlib.Path(__file__).parent / name).write_text("\n".join(text) + "\n", encoding="ascii")


def main() -> None:
    assert unicode.unidata_version == "16.0.0"
    write("unicode_categories.inc", "first code point << 8 | general category", lines(ranges(lambda c: CATEGORIES.index(unicode.category(chr(c))))))

    short = sorted(set(Scripts.VALUES))
    assert len(short) < 256
    script_of = lambda c: short.index(Scripts.VALUES[bisect.bisect_right(Scripts.RANGES, c) - 1])
    write("unicode_scripts.inc", "first code point << 8 | script", ["#ifdef QUERN_SCRIPT_NAMES  // short and long name by number"],
          lines([f'{{"{s}", "{Scripts.NAMES[s]}"}},' for s in short]), ["#else"], lines(ranges(script_of)), ["#endif"])


if __name__ == "__main__":
    main()
