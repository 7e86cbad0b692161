"""A SentencePiece model file from a vocabulary as GGUF has it, for SentencePiece's own library to read. Field numbers: sentencepiece_model.proto."""
import struct

UNKNOWN, UNUSED, BYTE = 2, 5, 6


def varint(n: int) -> bytes:
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number: int, value) -> bytes:
    if isinstance(value, bytes): return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float): return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(int(value))


def model_file(tokens: list[str], scores: list[float], types: list[int], unigram: bool, charsmap: bytes, dummy_prefix: bool, squeezes: bool) -> bytes:
    """`types`: of SentencePiece, whose numbers GGUF has taken over. The library wants one unknown token, and no piece twice."""
    unknown, seen, out = types.index(UNKNOWN), set(), []
    for i, (token, score, kind) in enumerate(zip(tokens, scores, types)):
        if kind == UNKNOWN and i != unknown: kind = UNUSED
        # GGUF spells the spaces of users' tokens.
        piece = token.replace(" ", "▁").encode()
        if piece in seen: piece, kind = f"<unused {i}>".encode(), UNUSED
        seen.add(piece)
        out.append(field(1, field(1, piece) + field(2, float(score)) + field(3, kind)))
    trainer = field(3, 1 if unigram else 2) + field(35, BYTE in types) + field(40, unknown)
    normalizer = field(1, b"from a file") + field(3, dummy_prefix) + field(4, squeezes) + field(5, True)
    if charsmap: normalizer += field(2, charsmap)
    return b"".join(out) + field(2, trainer) + field(3, normalizer)
