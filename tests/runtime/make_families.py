#!/usr/bin/env python3
"""Makes data/families.txt: a small model of each family, and what it answers, computed here in float64 as the papers say.

  make_families.py [LLAMA_LOGITS_COMMAND]

LLAMA_LOGITS_COMMAND, e.g. "python3 llama_logits.py --bin BUILD/bin", called with MODEL.gguf --ids 1,2 --out OUT.npy, compares llama.cpp
with it. Needs: numpy; for that also gguf.

Weights are not in the data: both sides compute them from a tensor's name and an element's number (values() below; families_test.cc). The
data has a line a fact: "model ARCHITECTURE", "set KEY VALUE" (without the architecture; integers have no point), "tensor NAME DIMENSIONS"
(row-major), "ids …", and for some of the tokens "logits TOKEN VALUES".
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

VOCABULARY, TOKENS, SHOWN = 48, 24, (0, 7, 23)


def values(name: str, shape) -> np.ndarray:
    seed = 2166136261
    for byte in name.encode():
        seed = ((seed ^ byte) * 16777619) & 0xFFFFFFFF
    h = (np.arange(np.prod(shape), dtype=np.uint64) * 2654435761 + seed) & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 2246822519 & 0xFFFFFFFF
    h ^= h >> 13
    v = ((h & 0xFF).astype(np.float64) - 127.5) / 128
    v = 1 + v / 4 if name.endswith("norm.weight") else v if name.startswith("token_embd") else v / 2 if name.endswith("bias") else v / 4
    return v.reshape(shape)


def rms_norm(x, w, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * w


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rope(x, base, factor, neighbours):  # x: [tokens, heads, head size]
    pairs = x.shape[2] // 2
    angle = np.arange(x.shape[0])[:, None] / factor * base ** (-np.arange(pairs) / pairs)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :pairs], x[..., pairs:])
    y = np.empty_like(x)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if neighbours else (slice(0, pairs), slice(pairs, None))
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y


def attention(q, k, v, scale, window):
    n, group = len(q), q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    score = np.einsum("qhd,khd->hqk", q, k) * scale
    behind = np.arange(n)[:, None] - np.arange(n)[None]
    score[:, (behind < 0) | ((behind >= window) if window else False)] = -np.inf
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weight / weight.sum(axis=-1, keepdims=True), v).reshape(n, -1)


class Model:
    def __init__(self, architecture, layers, heads, kv_heads, head_dim, base, tied, **more):
        self.architecture, self.layers, self.heads, self.kv_heads, self.head_dim = architecture, layers, heads, kv_heads, head_dim
        self.base, self.tied, self.more = base, tied, more
        self.width, self.ffn, self.epsilon = 32, 48, 1e-6
        self.tensors = {}

    def keys(self):
        return {"block_count": self.layers, "context_length": 512, "embedding_length": self.width, "feed_forward_length": self.ffn,
                "attention.head_count": self.heads, "attention.head_count_kv": self.kv_heads, "attention.key_length": self.head_dim,
                "attention.value_length": self.head_dim, "rope.dimension_count": self.head_dim, "vocab_size": VOCABULARY,
                "attention.layer_norm_rms_epsilon": self.epsilon, "rope.freq_base": self.base, **self.more}

    def tensor(self, name, *shape):
        self.tensors[name] = shape
        return values(name, shape)

    def linear(self, x, name, out, bias=False):
        y = x @ self.tensor(name + ".weight", out, x.shape[-1]).T
        return y + self.tensor(name + ".bias", out) if bias else y

    def norm(self, x, name):
        return rms_norm(x, self.tensor(name + ".weight", x.shape[-1]), self.epsilon)

    def forward(self, ids):
        a = self.architecture
        gemma, head_norms = a == "gemma3", a in ("qwen3", "gemma3")
        window = self.more.get("attention.sliding_window", 0)
        x = self.tensor("token_embd.weight", VOCABULARY, self.width)[ids] * (np.sqrt(self.width) if gemma else 1)
        for i in range(self.layers):
            b = f"blk.{i}."
            local = gemma and i % 6 != 5
            h = self.norm(x, b + "attn_norm")
            q, k, v = (self.linear(h, b + f"attn_{n}", count * self.head_dim, bias=a == "qwen2").reshape(len(ids), count, self.head_dim)
                       for n, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
            if head_norms:
                q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
            turn = (1e4, 1) if local else (self.base, self.more.get("rope.scaling.factor", 1))
            q, k = rope(q, *turn, a == "llama"), rope(k, *turn, a == "llama")
            h = attention(q, k, v, self.head_dim**-0.5, window if local else 0)
            h = self.linear(h, b + "attn_output", self.width)
            x = x + (self.norm(h, b + "post_attention_norm") if gemma else h)
            h = self.norm(x, b + "ffn_norm")
            h = (gelu if gemma else silu)(self.linear(h, b + "ffn_gate", self.ffn)) * self.linear(h, b + "ffn_up", self.ffn)
            h = self.linear(h, b + "ffn_down", self.width)
            x = x + (self.norm(h, b + "post_ffw_norm") if gemma else h)
        x = self.norm(x, "output_norm")
        logits = x @ values("token_embd.weight", (VOCABULARY, self.width)).T if self.tied else self.linear(x, "output", VOCABULARY)
        cap = self.more.get("final_logit_softcapping")
        return cap * np.tanh(logits / cap) if cap else logits


MODELS = [
    Model("llama", layers=2, heads=4, kv_heads=2, head_dim=8, base=1e4, tied=False),
    Model("qwen2", layers=2, heads=4, kv_heads=2, head_dim=8, base=1e6, tied=False),
    Model("qwen3", layers=2, heads=4, kv_heads=2, head_dim=16, base=1e6, tied=True),
    Model("gemma3", layers=7, heads=4, kv_heads=1, head_dim=16, base=1e6, tied=True,
          **{"attention.sliding_window": 5, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "final_logit_softcapping": 30.0}),
]


def compare_with_peer(command: str, model: Model, ids, logits) -> None:
    import gguf
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "m.gguf"), os.path.join(folder, "out.npy")
        w = gguf.GGUFWriter(path, model.architecture)
        for key, value in model.keys().items():
            add = w.add_uint32 if isinstance(value, int) else w.add_string if isinstance(value, str) else w.add_float32
            add(f"{model.architecture}.{key}", value)
        w.add_tokenizer_model("none")
        for name, shape in model.tensors.items():
            w.add_tensor(name, values(name, shape).astype(np.float32))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        subprocess.run([*command.split(), path, "--ids", ",".join(map(str, ids)), "--out", out], check=True)
        print(f"{model.architecture}: llama.cpp differs by {abs(np.load(out) - logits).max():.1e} of {abs(logits).max():.1f}")


def main() -> None:
    ids = [(7 * i * i + 3) % VOCABULARY for i in range(TOKENS)]
    lines = []
    for model in MODELS:
        logits = model.forward(ids)
        lines.append(f"model {model.architecture}")
        lines += [f"set {key} {value!r}".replace("'", "") for key, value in model.keys().items()]
        lines += [f"tensor {name} {' '.join(map(str, shape))}" for name, shape in model.tensors.items()]
        lines.append("ids " + " ".join(map(str, ids)))
        lines += [f"logits {t} " + " ".join(f"{x:.7g}" for x in logits[t]) for t in SHOWN]
        if len(sys.argv) > 1:
            compare_with_peer(sys.argv[1], model, ids, logits)
    (pathlib.Path(__file__).resolve().parent / "data" / "families.txt").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
