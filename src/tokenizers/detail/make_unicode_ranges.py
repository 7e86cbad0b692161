#!/usr/bin/env python3
"""Writes unicode_ranges.inc: the classes of every code point that pre-tokenizer patterns ask for, from Unicode 16.0.

    pip install unicodedata2==16.0.0 && ./make_unicode_ranges.py > unicode_ranges.inc

Each number is (first code point << 8 | flags); a range ends where the next begins. Flags as in unicode.h. The version is pinned so that
the same text gives the same tokens wherever the program was built; it is the one the reference libraries use.
"""
import unicodedata2 as unicode

LETTER, NUMBER, SPACE, MARK, PUNCTUATION, SYMBOL, LOWER, UPPER = (1 << i for i in range(8))
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
MAJOR = {"L": LETTER, "N": NUMBER, "M": MARK, "P": PUNCTUATION, "S": SYMBOL}
MINOR = {"Ll": LOWER, "Lu": UPPER, "Lt": UPPER}


def flags(code: int) -> int:
    category = unicode.category(chr(code))
    return MAJOR.get(category[0], 0) | MINOR.get(category, 0) | (SPACE if code in WHITE_SPACE else 0)


def main() -> None:
    assert unicode.unidata_version == "16.0.0"
    numbers, previous = [], None
    for code in range(0x110000):
        f = flags(code)
        if f != previous:
            numbers.append(f"{code << 8 | f:#x},")
            previous = f
    print("// Made by make_unicode_ranges.py from Unicode 16.0.0: first code point << 8 | flags.")
    line = ""
    for n in numbers:
        if len(line) + 1 + len(n) > 140:
            print(line)
            line = ""
        line += (" " if line else "") + n
    print(line)


if __name__ == "__main__":
    main()
