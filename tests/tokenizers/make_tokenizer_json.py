#!/usr/bin/env python3
"""Writes data/tokenizer_json.cases: small tokenizers of every kind, and what Hugging Face `tokenizers` makes of some strings with them.

Needs: pip install tokenizers==0.23.3. One JSON object a line: name, tokenizer (the tokenizer.json), strings, ids, plain (ids with the texts of
special tokens as text), framed (ids with begin and end tokens), decoded (of ids), skipped (the same without special tokens).
"""
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "conformance"))
sys.path.insert(0, str(HERE.parent.parent / "src/tokenizers/detail"))
from make_hugging_face_tables import charsmap  # noqa: E402
from tokenizer_strings import CODE, RTL, SCRIPTS, WORDS, make_strings  # noqa: E402

CORPUS = WORDS * 3 + SCRIPTS + RTL + CODE
SPECIAL = ["<s>", "</s>", "<unk>"]


def train(model, trainer, normalizer=None, pre=None, corpus=CORPUS):
    t = Tokenizer(model)
    if normalizer: t.normalizer = normalizer
    if pre: t.pre_tokenizer = pre
    t.train_from_iterator(corpus, trainer)
    return t


def bpe(size=260, normalizer=None, pre=None, byte_level=False, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIAL,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [],
                                  **{k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")})
    return train(models.BPE(**options), trainer, normalizer, pre)


def with_bytes(t):
    j = json.loads(t.to_str())
    vocab = j["model"]["vocab"]
    for b in range(256): vocab.setdefault(f"<0x{b:02X}>", len(vocab))
    j["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(j))


def make():
    whitespace = pre_tokenizers.Whitespace()
    yield "byte level", bpe(400, pre=pre_tokenizers.ByteLevel(add_prefix_space=False), byte_level=True), decoders.ByteLevel()
    t = bpe(400, pre=pre_tokenizers.ByteLevel(add_prefix_space=True), byte_level=True)
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    yield "byte level with a space in front", t, decoders.ByteLevel()
    split = pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated")
    yield "byte level, a pattern, NFC", bpe(400, normalizers.NFC(), pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)]), True), decoders.ByteLevel()
    digits = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(False), pre_tokenizers.Digits(False)])
    yield "byte level in the middle", bpe(400, pre=digits, byte_level=True), decoders.ByteLevel()
    yield "byte level normalizer", bpe(400, normalizers.ByteLevel(), byte_level=True), decoders.ByteLevel()
    llama = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t = with_bytes(bpe(260, llama, unk_token="<unk>", fuse_unk=True))
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 0)])
    yield "byte fallback", t, decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    yield "fused unknown", bpe(90, llama, unk_token="<unk>", fuse_unk=True), decoders.Metaspace()
    yield "unknown one by one", bpe(90, normalizers.NFKD(), whitespace, unk_token="<unk>"), None
    yield "no unknown", bpe(90, normalizers.NFD(), whitespace), decoders.Fuse()
    yield "end of word", bpe(200, normalizers.Lowercase(), whitespace, unk_token="<unk>", end_of_word_suffix="</w>"), decoders.BPEDecoder("</w>")
    yield "continuing", bpe(200, normalizers.NFKC(), whitespace, unk_token="<unk>", continuing_subword_prefix="##"), decoders.WordPiece("##", False)
    yield "ignored merges", bpe(200, None, pre_tokenizers.WhitespaceSplit(), ignore_merges=True, unk_token="<unk>"), decoders.CTC("<s>", "a", True)

    def word_piece(normalizer, pre, **options):
        trainer = trainers.WordPieceTrainer(vocab_size=300, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"])
        t = train(models.WordPiece(unk_token="[UNK]", **options), trainer, normalizer, pre)
        t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        return t

    yield "BERT", word_piece(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()), decoders.WordPiece()
    yield "BERT cased", word_piece(normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False), pre_tokenizers.BertPreTokenizer(), max_input_chars_per_word=8), decoders.WordPiece("##", False)
    yield "accents", word_piece(normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip(), normalizers.Nmt()]), pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), whitespace])), decoders.WordPiece()

    def unigram(normalizer, pre, size=200, fallback=False):
        trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>")
        t = train(models.Unigram(), trainer, normalizer, pre, WORDS * 3 + CODE)
        return with_scored_bytes(t) if fallback else t

    def with_scored_bytes(t):
        j = json.loads(t.to_str())
        j["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0 - b / 256] for b in range(256)]
        j["model"]["byte_fallback"] = True
        return Tokenizer.from_str(json.dumps(j))

    yield "Unigram", unigram(normalizers.Sequence([charsmap("xﬁ™é"), normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizers.Metaspace()), decoders.Metaspace()
    yield "Unigram, bytes", unigram(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="first"), fallback=True), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    yield "Unigram, whole text", unigram(None, pre_tokenizers.Metaspace(prepend_scheme="never", split=False), 300), decoders.Metaspace(prepend_scheme="never")

    def word_level(pre):
        return train(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=150, show_progress=False, special_tokens=SPECIAL), None, pre)

    yield "words", word_level(whitespace), None
    yield "fixed length", word_level(pre_tokenizers.FixedLength(3)), decoders.Fuse()
    yield "delimiter", word_level(pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("a"), pre_tokenizers.Digits(True)])), None
    for behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"split {behaviour} {invert}", bpe(120, pre=pre_tokenizers.Split(Regex("[aeiou ]|[0-9]+"), behaviour, invert), unk_token="<unk>"), decoders.Fuse()


ADDED = [AddedToken("<|im|>", special=True), AddedToken("<L>", lstrip=True, special=True, normalized=False), AddedToken("<R>", rstrip=True, special=False),
         AddedToken("word", single_word=True, normalized=False), AddedToken("<|im", special=False, normalized=False), AddedToken("Éa", normalized=True),
         AddedToken("<LR>", lstrip=True, rstrip=True, special=True, normalized=True), AddedToken("  ", normalized=False)]


def main():
    out = open(HERE / "data/tokenizer_json.cases", "w")
    for number, (name, t, decoder) in enumerate(make()):
        if decoder: t.decoder = decoder
        if number % 3: t.add_tokens(ADDED)
        strings = make_strings(32, number, ["<|im|>", "<L>", "<R>", "word", "<|im", "Éa", "<LR>", "<s>", "a word", "swords", "<L>  <R> <LR> "])
        strings = [s for s in strings if len(s) < 120]
        t.encode_special_tokens = False
        ids = [e.ids for e in t.encode_batch(strings, add_special_tokens=False)]
        plain_strings = [s for s in strings if "<s>" not in s]
        framed = [e.ids for e in t.encode_batch(plain_strings, add_special_tokens=True)]
        # The library shows a special token after all where its normalised text differs from its text; Quern shows none.
        special = {i for i, token in t.get_added_tokens_decoder().items() if token.special}
        shown = [[i for i in row if i not in special] for row in ids]
        case = {"name": name, "tokenizer": json.loads(t.to_str()), "strings": strings, "ids": ids,
                "decoded": [t.decode(i, skip_special_tokens=False) if i else "" for i in ids],
                "skipped": [t.decode(i, skip_special_tokens=False) if i else "" for i in shown], "plain_strings": plain_strings, "framed": framed}
        t.encode_special_tokens = True
        case["plain"] = [e.ids for e in t.encode_batch(strings, add_special_tokens=False)]
        out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
