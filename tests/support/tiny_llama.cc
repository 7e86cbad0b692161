#include "support/tiny_llama.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "base/float16.h"

namespace quern::testing {
namespace {

using ir::DType;

class Weights {
 public:
  Weights(gguf::Writer& out, unsigned seed) : out_(out), random_(seed) {}

  /// Normal values around `mean`; what of the file's type comes nearest to them is no matter.
  void add(const std::string& name, DType type, std::vector<std::int64_t> shape, float mean, float deviation) {
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count *= d;
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<std::byte>& bytes = kept_.emplace_back(static_cast<std::size_t>(count / ir::block_elements(type) * ir::block_bytes(type)));
    const auto put = [&](std::size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
    const auto block = static_cast<std::size_t>(ir::block_bytes(type));
    for (std::size_t at = 0; at < bytes.size(); at += block) {
      switch (type) {
        case DType::f32: put(at, normal(random_)); break;
        case DType::f16: put(at, f32_to_f16(normal(random_))); break;
        case DType::q8_0:
          put(at, f32_to_f16(deviation / 73.0f));  // uniform -127 … 127 deviates by 73
          for (std::size_t i = 2; i < block; ++i) put(at + i, static_cast<std::int8_t>(static_cast<int>(random_() % 255) - 127));
          break;
        default:  // q4_0, q4_1: uniform 0 … 15 deviates by 4.6
          for (std::size_t i = 0; i < block; ++i) put(at + i, static_cast<std::uint8_t>(random_()));
          put(at, f32_to_f16(deviation / 4.6f));
          if (type == DType::q4_1) put(at + 2, f32_to_f16(-7.5f * deviation / 4.6f));
      }
    }
    out_.add_tensor(name, type, shape, bytes);
  }

 private:
  gguf::Writer& out_;
  std::mt19937 random_;
  std::deque<std::vector<std::byte>> kept_;
};

void add_vocabulary(gguf::Writer& out, std::int64_t size) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto character = [](int code) {  // of at most two bytes of UTF-8
    return code < 128 ? std::string(1, static_cast<char>(code))
                      : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  };
  int next = 256;  // GPT-2's stand-ins for bytes that do not print
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    tokens.push_back(character(prints ? byte : next++));
    types.push_back(1);
  }
  while (static_cast<std::int64_t>(tokens.size()) < size) {
    tokens.push_back("<|" + std::to_string(tokens.size()) + "|>");
    types.push_back(3);
  }
  tokens.resize(static_cast<std::size_t>(size));
  types.resize(static_cast<std::size_t>(size));
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  out.set("tokenizer.ggml.model", "gpt2");
  out.set("tokenizer.ggml.pre", "smollm");
  out.set_array("tokenizer.ggml.tokens", std::span(views));
  out.set_array("tokenizer.ggml.token_type", std::span<const std::int32_t>(types));
  out.set_array("tokenizer.ggml.merges", std::span<const std::string_view>());
  out.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(size - 1));
}

}  // namespace

void write_tiny_llama(const std::string& path, const TinyLlama& m) {
  gguf::Writer out;
  out.set("general.architecture", m.architecture);
  const auto set = [&](std::string_view key, auto value) {
    if (!m.without(key)) out.set(m.architecture + "." + std::string(key), value);
  };
  set("block_count", static_cast<std::uint32_t>(m.layers));
  set("context_length", static_cast<std::uint32_t>(m.context_length));
  set("embedding_length", static_cast<std::uint32_t>(m.width));
  set("feed_forward_length", static_cast<std::uint32_t>(m.ffn_width));
  set("attention.head_count", static_cast<std::uint32_t>(m.heads));
  set("attention.head_count_kv", static_cast<std::uint32_t>(m.kv_heads));
  set("attention.key_length", static_cast<std::uint32_t>(m.head_dim));
  set("attention.value_length", static_cast<std::uint32_t>(m.head_dim));
  set("attention.layer_norm_rms_epsilon", 1e-5f);
  set("rope.dimension_count", static_cast<std::uint32_t>(m.head_dim));
  set("rope.freq_base", 10000.0f);
  add_vocabulary(out, m.vocabulary);

  Weights weights(out, m.seed);
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    weights.add(name + ".weight", m.weights, {rows, columns}, 0, 1.5f / std::sqrt(static_cast<float>(columns)));
  };
  const auto vector = [&](const std::string& name, std::int64_t n, float mean) { weights.add(name, DType::f32, {n}, mean, 0.2f); };
  weights.add("token_embd.weight", m.weights, {m.vocabulary, m.width}, 0, 1);
  vector("output_norm.weight", m.width, 1);
  if (!m.tied) matrix("output", m.vocabulary, m.width);
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i);
    const std::int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
    vector(layer + ".attn_norm.weight", m.width, 1);
    matrix(layer + ".attn_q", q, m.width);
    matrix(layer + ".attn_k", kv, m.width);
    matrix(layer + ".attn_v", kv, m.width);
    matrix(layer + ".attn_output", m.width, q);
    vector(layer + ".ffn_norm.weight", m.width, 1);
    matrix(layer + ".ffn_gate", m.ffn_width, m.width);
    matrix(layer + ".ffn_up", m.ffn_width, m.width);
    matrix(layer + ".ffn_down", m.width, m.ffn_width);
    if (m.biases) {
      vector(layer + ".attn_q.bias", q, 0);
      vector(layer + ".attn_k.bias", kv, 0);
      vector(layer + ".attn_v.bias", kv, 0);
      vector(layer + ".attn_output.bias", m.width, 0);
    }
    if (m.head_norms) {
      vector(layer + ".attn_q_norm.weight", m.head_dim, 1);
      vector(layer + ".attn_k_norm.weight", m.head_dim, 1);
    }
    if (m.outer_norms) {
      vector(layer + ".post_attention_norm.weight", m.width, 1);
      vector(layer + ".post_ffw_norm.weight", m.width, 1);
    }
  }
  m.more(out);
  out.write(path);
}

}  // namespace quern::testing
