"""Generated strings that tokenizers disagree on: all planes, combining marks, joined emoji, right-to-left, white space, numbers, code."""
import random

WHITE = " \t\n\r\u00a0\u2003\u200b\u2028\u3000\x0b\x0c\x85\u1680\u202f\u205f\ufeff"
MARKS = "".join(map(chr, [*range(0x300, 0x370), *range(0x483, 0x488), *range(0x591, 0x5BD), *range(0x64B, 0x65F), 0x93C, 0x94D, 0xE31, 0x302A, 0x3099, 0x309A, 0x1E8D0, 0x1D165]))
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷🇺🇦", "☺️", "1️⃣", "™️", "©", "🧑🏿‍🚀", "❤️‍🔥", "🫠", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
RTL = ["שָׁלוֹם", "مرحبا بالعالم", "\u202eabc\u202c", "؟١٢٣", "ـــ", "ﷺ", "לא?", "فارسی‌زبان"]
SCRIPTS = ["日本語テキスト", "中文，标点。", "한국어 텍스트", "\u1112\u1161\u11ab", "हिन्दी क्षत्रिय", "ภาษาไทย", "Ελληνικά ΣΑΣς", "Русский ТЕКСТ", "ქართული", "አማርኛ", "İstanbul ıI", "Größe ẞß", "ﬁancé ﬂ", "ＦＵＬＬｗｉｄｔｈ１２", "½⅓²", "Å Å Å", "Ǆǅǆ", "ｶﾞｷﾞ", "㍿㌘", "ԱԲԳ", "ᏣᎳᎩ", "𝕳𝖊𝖑𝖑𝖔", "𠜎𠜱", "Ⅷ ⅷ"]
CODE = ["def f(x):\n    return x**2  # comment\n", "for (int i=0;i<10;++i) { a[i] = b->c; }", "</div><p class=\"x\">", "SELECT * FROM t WHERE a != 'b';", "\t\tif err != nil {\n\t\t\treturn err\n\t\t}", "https://example.com/a?b=c&d=%20#e", "x = [1, 2.5e-3, 0xFF, 1_000];", "\\frac{a}{b}$x^2$", "{\"k\": [null, true]}", "don't we'll I'VE they'Re it's 'tis o'clock ſ'ſ"]
WORDS = ["Hello", "world", "the", "quick", "brown", "internationalization", "a", "I", "naïve", "café", "cafe\u0301", "Straße", "e.g.", "U.S.A.", "antidisestablishmentarianism", "iPhone", "COVID", "lol", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"]


def make_strings(count: int, seed: int, specials: list[str] = ()) -> list[str]:
    r = random.Random(seed)
    specials = list(specials)

    def character() -> str:
        while True:
            plane = r.choice([0, 0, 0, 0, 1, 1, 2, 3, 14, r.randrange(17)])
            c = plane << 16 | r.randrange(0x10000)
            if not 0xD800 <= c < 0xE000: return chr(c)

    def piece() -> str:
        match r.randrange(16):
            case 0: return "".join(character() for _ in range(r.randrange(1, 6)))
            case 1: return "".join(r.choice(WHITE) for _ in range(r.randrange(1, 6)))
            case 2: return " " * r.randrange(1, 20) if r.random() < 0.7 else "\n" * r.randrange(1, 6)
            case 3: return r.choice("aeonAE\u0438\u05d0\u304b\u4e2d") + "".join(r.choice(MARKS) for _ in range(r.randrange(1, 5)))
            case 4: return r.choice(EMOJI)
            case 5: return r.choice(RTL)
            case 6: return r.choice(SCRIPTS)
            case 7: return str(r.randrange(10 ** r.randrange(1, 18)))
            case 8: return r.choice(CODE)
            case 9: return "".join(chr(r.randrange(33, 127)) for _ in range(r.randrange(1, 10)))
            case 10: return chr(r.choice([r.randrange(0x80, 0x800), r.randrange(0x800, 0x3000), r.randrange(0x3000, 0xA000), r.randrange(0xAC00, 0xD7A4), r.randrange(0xF900, 0xFFFF)]))
            case 11 if specials:
                s = r.choice(specials)
                return r.choice([s, s, s, s[: r.randrange(1, len(s) + 1)], " " + s + " ", s.lower(), s + "\n"])
            case _: return r.choice(WORDS)

    return ["".join(piece() + r.choice(["", "", " ", " ", "  ", "\n"]) for _ in range(r.randrange(0, 9))) for _ in range(count)]
