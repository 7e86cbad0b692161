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
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

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

# name: (patterns, each isolating its matches in what the one before left; whether whole words that are tokens skip the merges)
PRE_TOKENIZERS = {
    "gpt-2": ([GPT2], False),
    "smollm": ([r"\p{N}", GPT2], False),
    "llama-bpe": ([LLAMA3], True),
    "glm4": ([LLAMA3], True),
    "dbrx": ([LLAMA3], False),
    "qwen2": ([QWEN2], False),
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
}


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
        t.pre_tokenizer = pre_tokenizer(name)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in CONTROL])
        t.add_tokens([AddedToken(x, special=False, normalized=False) for x in USER_DEFINED])
        columns = []
        for t.encode_special_tokens in (False, True):
            columns.append([" ".join(map(str, e.ids)) for e in t.encode_batch(strings, add_special_tokens=False)])
        write(name + ".ids", (f"{a}|{b}" for a, b in zip(*columns)))


if __name__ == "__main__":
    main()
