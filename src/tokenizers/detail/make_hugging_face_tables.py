#!/usr/bin/env python3
"""Writes hugging_face_classes.inc, hugging_face_scripts.inc and normal_forms.inc: what Hugging Face `tokenizers` takes each code point for.

Its parts are compiled against several versions of Unicode (normal forms 12, words 16, punctuation older still), so the library itself is asked
about every code point. Needs: pip install tokenizers==0.23.3. Run from this folder.
"""
import base64
import struct
import unicodedata
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers  # noqa: F401

HERE = Path(__file__).parent
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HEADER = "// Made by make_hugging_face_tables.py.\n"
WORD, PUNCTUATION, NUMERIC, COMBINING, NONSPACING, CONTROL, EXTENDS, PREPENDS = (1 << i for i in range(8))


def pieces(step, text):
    return [piece for piece, _ in step.pre_tokenize_str(text)]


def write(name, comment, numbers):
    lines, line = [], ""
    for n in numbers:
        item = f"{n:#x},"
        if len(line) + len(item) + 1 > 138:
            lines.append(line)
            line = ""
        line += (" " if line else "") + item
    (HERE / name).write_text(HEADER + f"// {comment}\n" + "\n".join(lines + [line]) + "\n")


def runs(values):
    """start << 8 | value for each run of code points with one value."""
    out, last = [], None
    for c in range(0x110000):
        value = values.get(c, 0)
        if value != last:
            out.append(c << 8 | value)
            last = value
    return out


def charsmap(keys):
    """A normalizer that maps each of the one-character keys to 'Z', as SentencePiece stores it."""
    units = [0] * 256
    used = {0}

    def unit(offset, label, leaf):
        assert offset < 1 << 21
        return offset << 10 | (1 << 8 if leaf else 0) | label

    def place(node, tree):
        labels = sorted(tree)
        base = next(b for b in range(1, 1 << 20) if (node ^ b) not in used and all((node ^ b ^ l) not in used for l in labels))
        used.update(node ^ base ^ l for l in labels)
        used.add(node ^ base)
        while len(units) <= max(node ^ base ^ l for l in labels) | 255: units.extend([0] * 256)
        units[node] = units[node] & 0x3FF | base << 10
        for l in labels:
            child = node ^ base ^ l
            if tree[l] is None:
                units[child] = 1 << 31  # value 0: where "Z" stands
            else:
                units[child] = unit(0, l, None in tree[l].values() and 0 in tree[l])
        for l in labels:
            if tree[l] is not None: place(node ^ base ^ l, tree[l])

    tree = {}
    for key in keys:
        at = tree
        for byte in key.encode(): at = at.setdefault(byte, {})
        at[0] = None
    place(0, tree)
    blob = struct.pack("<I", len(units) * 4) + struct.pack(f"<{len(units)}I", *units) + b"Z\0"
    return normalizers.Precompiled(blob)


def classes():
    flags = dict.fromkeys(ALL, 0)
    white, punctuation, digits, word = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(True), pre_tokenizers.Whitespace()
    accents = normalizers.StripAccents()
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    bert_accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    nfd = normalizers.NFD()
    extends = charsmap("x")
    # The few characters that join with the next one; asked below whether they do.
    candidates = [chr(c) for c in ALL if unicodedata.category(chr(c)) == "Cf" or 0x0D4E == c or 0x11000 <= c < 0x12000]
    candidates = [c for c in candidates if len(c.encode()) <= 4]
    prepends = charsmap(candidates)
    for c in ALL:
        s = chr(c)
        if len(pieces(white, f"a{s}a")) == 1:
            if len(pieces(word, "a" + s)) == 1: flags[c] |= WORD
        if len(pieces(punctuation, "a" + s)) == 2: flags[c] |= PUNCTUATION
        if len(pieces(digits, "a" + s)) == 2: flags[c] |= NUMERIC
        if accents.normalize_str(s) == "": flags[c] |= COMBINING
        if nfd.normalize_str(s) == s and bert_accents.normalize_str(s) == "": flags[c] |= NONSPACING
        if clean.normalize_str(s) == "": flags[c] |= CONTROL
        if c != 0x78 and extends.normalize_str("x" + s) == "Z": flags[c] |= EXTENDS
    for s in candidates:
        if prepends.normalize_str(s + "x") == "Z": flags[ord(s)] |= PREPENDS
    return flags


def scripts():
    step = pre_tokenizers.UnicodeScripts()
    values, names = {}, []  # names: a character of each script

    def same(a, b): return len(pieces(step, a + b)) == 1

    any_script = [c for c in ALL if same(chr(c), "a") and same(chr(c), "\u5b57")]  # joins with everything
    skip = set(any_script)
    last = None
    for c in ALL:
        if c in skip: continue
        s = chr(c)
        if last is not None and same(names[last], s):
            values[c] = last + 1
            continue
        last = next((i for i, n in enumerate(names) if same(n, s)), None)
        if last is None:
            last = len(names)
            names.append(s)
        values[c] = last + 1
    return values


def normal_forms():
    nfd, nfkd, nfc, lower = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC(), normalizers.Lowercase()
    hangul = range(0xAC00, 0xD7A4)
    canonical, compatible, composed, lowered = {}, {}, {}, {}
    for c in ALL:
        s = chr(c)
        if c not in hangul:
            d, k = nfd.normalize_str(s), nfkd.normalize_str(s)
            if d != s: canonical[c] = d
            if k != d: compatible[c] = k
        l = lower.normalize_str(s)
        if l != s: lowered[c] = l
    by_text = {d: c for c, d in canonical.items() if nfc.normalize_str(d) == chr(c)}
    for d, c in by_text.items():
        first = d[0] if len(d) == 2 else chr(by_text[d[:-1]])
        composed[c] = (ord(first), ord(d[-1]))
    combining = {}
    for c in ALL:
        cc = unicodedata.combining(chr(c))
        if cc == 0: continue
        probe = chr(c) + "\u0334" if cc > 1 else "\u0345" + chr(c)
        if nfd.normalize_str(probe) != probe or chr(c) in canonical: combining[c] = cc
    for c in canonical:  # a mark that decomposes is ordered by what it becomes
        combining.pop(c, None)
    stream = []
    for table in (canonical, compatible, lowered):
        stream.append(len(table))
        for c, text in table.items():
            stream.append(c << 8 | len(text))
            stream.extend(map(ord, text))
    stream.append(len(composed))
    for c, (a, b) in sorted(composed.items()): stream.extend((a, b, c))
    classes_runs = runs(combining)
    stream.append(len(classes_runs))
    stream.extend(classes_runs)
    return stream


if __name__ == "__main__":
    write("hugging_face_classes.inc", "First code point of a run << 8 | flags: HuggingFaceClass in hugging_face.h.", runs(classes()))
    write("hugging_face_scripts.inc", "First code point of a run << 8 | script, 0 for those that join with any.", runs(scripts()))
    write("normal_forms.inc", "Canonical, compatible and lower-case mappings, compositions, combining classes: see normal_forms.cc.", normal_forms())
