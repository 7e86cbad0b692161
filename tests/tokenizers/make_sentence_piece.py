#!/usr/bin/env python3
"""Makes the data of sentence_piece_test.cc: small SentencePiece BPE models, strings, and their ids.

  LLAMA_CPP_LIB_PATH=BUILD/bin make_sentence_piece.py LLAMA_CPP_SOURCE_FOLDER

Needs: pip install sentencepiece gguf unicodedata2==16.0.0 tokenizers; llama.cpp's shared library and the folder that has
python_llama_cpp/. The models are trained here. Ids with control tokens parsed, and without, are llama.cpp's; the latter are checked to be
SentencePiece's too. llama.cpp does not drop extra white space, so the model that does has SentencePiece's ids alone.

A vocabulary is a line "type score text" a token, the text in hexadecimal; ids are a line "parsed|plain" a string of sentence_piece.strings.
"""
import io
import os
import pathlib
import random
import sys
import tempfile

import gguf
import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]
import make_oracle  # noqa: E402
import tokenizer_conformance  # noqa: E402

CONTROL = ["<|turn|>", "<|end|>"]
MODELS = {  # what differs from one to the next
    "llama": dict(add_dummy_prefix=True, remove_extra_whitespaces=False, byte_fallback=True),
    "gemma": dict(add_dummy_prefix=False, remove_extra_whitespaces=False, byte_fallback=True,
                  user_defined_symbols=["\n", "\n\n", "\n\n\n", "<b>", "</b>", "\t", "  "]),
    "squeezing": dict(add_dummy_prefix=True, remove_extra_whitespaces=True, byte_fallback=False),
}


def train(options: dict, sentences: list[str]) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, model_type="bpe", vocab_size=760, normalization_rule_name="identity",
        control_symbols=CONTROL, character_coverage=0.99, hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def tokens_of(model) -> list[tuple[int, float, str]]:
    def kind(i: int) -> int:
        if model.is_unknown(i): return 2
        if model.is_control(i): return 3
        if model.is_byte(i): return 6
        return 4 if model.id_to_piece(i) in user_defined else 1
    user_defined = {s.replace(" ", "▁") for s in MODELS["gemma"]["user_defined_symbols"]} if model.piece_to_id("<b>") > 0 else set()
    def text(i: int) -> str:  # user-defined tokens stand in files as text has them
        return model.id_to_piece(i).replace("▁", " ") if kind(i) == 4 else model.id_to_piece(i)
    return [(kind(i), model.get_score(i), text(i)) for i in range(model.get_piece_size())]


def write_gguf(path: str, tokens, prefix: bool) -> None:
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("llama")
    w.add_token_list([t for _, _, t in tokens])
    w.add_token_scores([s for _, s, _ in tokens])
    w.add_token_types([k for k, _, _ in tokens])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_space_prefix(prefix)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main() -> None:
    r = random.Random(4)
    specials = CONTROL + ["<s>", "</s>"] + MODELS["gemma"]["user_defined_symbols"]
    def piece() -> str:
        if r.random() < 0.2: return r.choice(specials)[: r.choice([2, 9, 9])]
        return make_oracle.make_string(r)
    strings = ["".join(piece() for _ in range(r.randrange(1, 4))) for _ in range(150)]
    strings += ["", " ", "  ", "\n", " a", "a ", "  a  b  ", "▁", "a▁b", "▁ a ▁", "the" * 60, " " * 300 + "x" + " " * 300, "\n" * 40, "é" * 50]
    common = set("".join(make_oracle.WORD_LIST)) | set(map(chr, range(32, 127)))  # of rare characters each would be a token
    sentences = ["".join(c for c in make_oracle.make_string(r) if c in common) for _ in range(3000)]

    def write(name: str, lines) -> None:
        (HERE / "data" / f"sentence_piece.{name}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    write("strings", (s.encode().hex() for s in strings))
    for name, options in MODELS.items():
        model = train(options, sentences)
        tokens = tokens_of(model)
        write(f"{name}.vocabulary", (f"{k} {s:g} {t.encode().hex()}" for k, s, t in tokens))
        plain = [model.encode(s) for s in strings]
        if options["remove_extra_whitespaces"]:
            parsed = plain
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "vocabulary.gguf")
                write_gguf(path, tokens, options["add_dummy_prefix"])
                peer = tokenizer_conformance.LlamaCpp(sys.argv[1], path)
                parsed = [peer.ids(s, True) for s in strings]
                for s, ids in zip(strings, plain):
                    if peer.ids(s, False) != ids: print(f"differ on {s!r}:\n  SentencePiece {ids}\n  llama.cpp     {peer.ids(s, False)}")
        write(f"{name}.ids", (" ".join(map(str, a)) + "|" + " ".join(map(str, b)) for a, b in zip(parsed, plain)))


if __name__ == "__main__":
    main()
