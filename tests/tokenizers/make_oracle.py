#!/usr/bin/env python3
"""Makes data/: a small byte-level vocabulary and, for each pre-tokenizer, the ids that Hugging Face `tokenizers` gives to 200 strings.

    pip install tokenizers==0.23.3 unicodedata2==16.0.0 && ./make_oracle.py

The merges are learnt without a pre-tokenizer, so that they would run across words: a word cut at the wrong place shows in the ids.
Files: vocabulary.txt, a line a token, "type text"; merges.txt; strings.txt, a line a string, hexadecimal UTF-8; NAME.ids, a line a string,
the ids with special tokens parsed, a bar, the ids without.
"""
import json
import os
import random

import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|><|im_start|>", "[PAD]"]
USER_DEFINED = ["<think>", "    ", "été"]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{CONTRACTION}|{WORDS}|\p{{N}}{{1,3}}|{REST}"
QWEN2 = rf"{CONTRACTION}|{WORDS}|\p{{N}}|{REST}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(contraction: str, digits: str) -> str:
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (rf"{lead}{UPPER}*{LOWER}+{contraction}|{lead}{UPPER}+{LOWER}*{contraction}|{digits}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


CJK = "[一-龥぀-ゟ゠-ヿ]+"
SENTENCE = " ?[^(\\s|.,!?…。，、।۔،)]+"
DEEPSEEK_V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
JAIS2_WHITE = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"

KIMI_UPPER, KIMI_LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}*{KIMI_LOWER}+{CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}+{KIMI_LOWER}*{CONTRACTION}?"
        rf"|\p{{N}}{{1,3}}|{REST}")
SPARK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]"
         r"|\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = (r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
DEEPSEEK_SIGNS = r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+"
AFMOE_SCRIPTS = r"[一-鿿㐀-䶿\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"

# name: (patterns, each isolating its matches in what the one before left; whether whole words that are tokens skip the merges)
PRE_TOKENIZERS = {
    "gpt-2": ([GPT2], False),
    "smollm": ([r"\p{N}", GPT2], False),
    "llama-bpe": ([LLAMA3], True),
    "glm4": ([LLAMA3], True),
    "dbrx": ([LLAMA3], False),
    "qwen2": ([QWEN2], False),
    "deepseek-r1-qwen": ([QWEN2], False),
    "qwen35": ([rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    "ufakzeka": ([rf"{WORDS}|\p{{N}}|{REST}"], False),
    "seed-coder": ([rf"{CONTRACTION}|{WORDS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    "laguna": ([r"[^\n]+|[\n]+", QWEN2], False),
    "minicpm5": ([r"\p{N}{1,3}", rf"{CONTRACTION}|{WORDS}|\p{{N}}+|{REST}"], True),
    "default": ([r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], False),
    "falcon": ([r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], False),
    "gpt-4o": ([cased(CONTRACTION + "?", r"\p{N}{1,3}")], False),
    "granite-embed-multi-97m": ([cased(CONTRACTION + "?", r"\p{N}{1,3}")], True),
    "tekken": ([cased("", r"\p{N}")], True),
    "youtu": (["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", cased(CONTRACTION + "?", r"\p{N}")], True),
    "deepseek-coder": (["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"], False),
    "deepseek-v3": ([r"\p{N}{1,3}", CJK, DEEPSEEK_V3], False),
    "jais-2": ([rf"{CONTRACTION}|{WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|{JAIS2_WHITE}"], False),
    "poro-chat": ([SENTENCE], False),
    "viking": ([SENTENCE, r"\p{N}"], False),
    "bailingmoe": ([r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"], False),
    "tiny_aya": ([r"\d{1,3}(?=(?:\d{3})*\b)", cased(CONTRACTION + "?", r"\p{N}{1,3}")], False),
    "deepseek-llm": (["[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_SIGNS, r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"], False),
    "spark2_5": ([r"\p{N}{1,3}", CJK, SPARK, r"\p{N}"], False),
    "afmoe": ([r"\p{N}+", r"(?=(?:\p{N}{3})+(?!\p{N}))", AFMOE_SCRIPTS, DEEPSEEK_V3], False),
    "kimi-k2": ([KIMI], False),
    "exaone-moe": ([rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"], False),
    "superbpe": ([r"\p{N}+", r"(?=(\d{3})+(?!\d))"], False),
    "chameleon": (["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2], False),
}

COMPOSED = {"qwen2"}  # their own tokenizers bring text into normal form C first; qwen35: the vectors that come with the vocabulary do not


def pre_tokenizer(name: str):
    if name == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name == "smollm":  # as its tokenizer.json has it
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in PRE_TOKENIZERS[name][0]]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


WORD_LIST = ("the of and to in is that I'm you're don't we'll they've he'd it's DON'T I'LL WE'RE camelCase HTTPServer Straße naïve café "
             "Ünïcödé été привет МИР Ελλάδα 你好世界 こんにちは 안녕하세요 مرحبا שלום हिन्दी ไทย for(int i=0;i<10;++i){} x[i]+=2; //path/to `code` ``x`` Türkiye'den it'sok l'homme we'really").split()
EMOJI = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "é", "ạ̈"]
BY_CATEGORY: dict[str, list[str]] = {}
for code in range(0x110000):
    category = unicodedata2.category(chr(code))
    if category not in ("Cs", "Co", "Cn"):
        BY_CATEGORY.setdefault(category, []).append(chr(code))


def make_string(r: random.Random) -> str:
    def piece() -> str:
        match r.randrange(11):
            case 0: return "".join(r.choice(BY_CATEGORY[r.choice(list(BY_CATEGORY))]) for _ in range(r.randrange(1, 6)))
            case 1: return "".join(r.choice(" \t\n\r\u00a0\u3000\u2003\x0b\x85\u2028\u180e") for _ in range(r.randrange(1, 7)))
            case 2: return r.choice([" ", "\n", "\t", "\r\n", "  "]) * r.randrange(1, 9)
            case 3: return str(r.randrange(10 ** r.randrange(1, 12)))
            case 4 | 5 | 6: return " ".join(r.choice(WORD_LIST) for _ in range(r.randrange(1, 4)))
            case 7: return r.choice(EMOJI)
            case 8: return r.choice(CONTROL + USER_DEFINED)[: r.choice([2, 5, 99, 99])]
            case 9: return "".join(r.choice("'sStTrReEvVmMlLdD .,!?/ſ") for _ in range(r.randrange(1, 8)))
            case _: return "".join(r.choice(BY_CATEGORY["Mn"] if r.random() < 0.4 else "aeiouAEIOUк") for _ in range(r.randrange(1, 8)))
    return "".join(piece() for _ in range(r.randrange(1, 6)))


def main() -> None:
    os.makedirs(DATA, exist_ok=True)
    r = random.Random(20)
    trainer = trainers.BpeTrainer(vocab_size=1400, show_progress=False, special_tokens=CONTROL, max_token_length=12,
                                  initial_alphabet=[c for c in pre_tokenizers.ByteLevel.alphabet() if c != "Ė"])  # no token for byte 0x16
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def training_string() -> str:  # no merge may lead to a control token: there Quern differs on purpose
        text = make_string(r).replace("\x16", "")
        for control in CONTROL:
            text = text.replace(control, "")
        return text

    tokenizer.train_from_iterator((training_string() for _ in range(4000)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    vocab = dict(model["vocab"])
    tokens = sorted(vocab, key=vocab.get) + USER_DEFINED
    vocab.update({t: i for i, t in enumerate(tokens)})
    types = [3 if t in CONTROL else 4 if t in USER_DEFINED else 1 for t in tokens]

    def write(name: str, lines) -> None:
        with open(os.path.join(DATA, name), "w", encoding="utf-8", newline="\n") as f:
            f.writelines(line + "\n" for line in lines)

    write("vocabulary.txt", (f"{ty} {t}" for ty, t in zip(types, tokens)))
    write("merges.txt", (f"{a} {b}" for a, b in merges))
    strings = [make_string(r) for _ in range(188)] + ["", " ", "\n", "a\x16b !\x16!", " " * 600 + "x", "\n" * 40, "7" * 50, "'", " '", "<|im_",
                                                              "don'tx l'reabc 'sT'Den 'ſx", "`a``b` +`+ x`1"]
    write("strings.txt", (s.encode().hex() for s in strings))
    for name, (_, ignore_merges) in PRE_TOKENIZERS.items():
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
        if name in COMPOSED: t.normalizer = normalizers.NFC()
        t.pre_tokenizer = pre_tokenizer(name)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in CONTROL])
        t.add_tokens([AddedToken(x, special=False, normalized=False) for x in USER_DEFINED])
        columns = []
        for t.encode_special_tokens in (False, True):
            columns.append([" ".join(map(str, e.ids)) for e in t.encode_batch(strings, add_special_tokens=False)])
        write(name + ".ids", (f"{a}|{b}" for a, b in zip(*columns)))
    write_characters(r, write)


def write_characters(r: random.Random, write) -> None:
    """characters.vocabulary, a line a token, "type hexadecimal UTF-8", and .merges, two of these a line; characters.NAME.ids as above."""
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=1400, show_progress=False, special_tokens=CONTROL + bytes_, max_token_length=12, limit_alphabet=300)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[^\\n]+|[\\n]+"), "isolated")

    def training_string() -> str:
        text = make_string(r)
        for control in CONTROL + bytes_:
            text = text.replace(control, "")
        return text

    tokenizer.train_from_iterator((training_string() for _ in range(4000)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges, vocab = [tuple(m) for m in model["merges"]], dict(model["vocab"])
    tokens = sorted(vocab, key=vocab.get)
    kind = lambda t: 3 if t in CONTROL else 6 if t in bytes_ else 1
    write("characters.vocabulary", (f"{kind(t)} {t.encode().hex()}" for t in tokens))
    write("characters.merges", (f"{a.encode().hex()} {b.encode().hex()}" for a, b in merges))
    strings = [make_string(r) for _ in range(188)] + ["", " ", "\n", "\n\n\n", "a\n\nb", " ▁ ▁", "  a", "a  ", "\n \n", "\u1fff\x16", "x" * 100, "<0x41>"]
    write("characters.strings", (s.encode().hex() for s in strings))
    for name, spaces_escaped in (("gemma4", True), ("whitespace", False)):
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True))
        if spaces_escaped:  # as its tokenizer.json has it: no words
            t.normalizer = normalizers.Replace(" ", "▁")
        else:
            t.pre_tokenizer = pre_tokenizers.Split(Regex(r"\S+"), "isolated")
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in CONTROL])
        columns = []
        for t.encode_special_tokens in (False, True):
            columns.append([" ".join(map(str, e.ids)) for e in t.encode_batch(strings, add_special_tokens=False)])
        write(f"characters.{name}.ids", (f"{a}|{b}" for a, b in zip(*columns)))


if __name__ == "__main__":
    main()
