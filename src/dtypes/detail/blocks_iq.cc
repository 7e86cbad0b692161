// The IQ formats: blocks of 256 elements, groups of 8 (or 4) of them coded together as an entry of a grid, signs apart.
#include "dtypes/detail/blocks.h"
#include "dtypes/detail/grids.h"

namespace quern::dtypes::detail {
namespace {

// Seven bits of signs stand for eight: the eighth makes their number even.
unsigned signs_of_7_bits(unsigned bits) { return bits | (static_cast<unsigned>(std::popcount(bits)) & 1u) << 7; }

// Eight elements of an iq2 grid: y = scale * level * sign.
void put_iq2(float* y, float scale, unsigned entry, unsigned signs) {
  for (int i = 0; i < 8; ++i) {
    const float value = scale * kLevels_iq2[(entry >> (2 * i)) & 3];
    y[i] = (signs >> i) & 1 ? -value : value;
  }
}

// Four elements of an iq3 grid.
void put_iq3(float* y, float scale, const float* levels, unsigned entry, unsigned signs) {
  for (int i = 0; i < 4; ++i) {
    const float value = scale * levels[(entry >> (3 * i)) & 7];
    y[i] = (signs >> i) & 1 ? -value : value;
  }
}

// Eight elements of the iq1 grid: y = scale * (level + delta).
void put_iq1(float* y, float scale, unsigned entry, float delta) {
  for (int i = 0; i < 8; ++i) y[i] = scale * (kLevels_iq1[(entry >> (2 * i)) & 3] + delta);
}

int nibble(const std::uint8_t* bytes, int i) { return (bytes[i / 2] >> (4 * (i % 2))) & 15; }

}  // namespace

// f16 scale; for each 32 elements four grid indices, and a word of four 7-bit signs and a 4-bit scale.
void dequantize_iq2_xxs(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<66, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int g = 0; g < 8; ++g) {
      const std::uint8_t* index = b + 2 + 8 * g;
      const std::uint32_t word = load<std::uint32_t>(index + 4);
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
      for (int k = 0; k < 4; ++k) put_iq2(y + 32 * g + 8 * k, scale, kGrid_iq2_xxs[index[k]], signs_of_7_bits((word >> (7 * k)) & 127));
    }
  });
}

// f16 scale, 32 words of 9-bit grid index and 7-bit signs, 16 scales of 4 bits.
void dequantize_iq2_xs(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<74, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int j = 0; j < 32; ++j) {
      const float scale = d * (0.5f + static_cast<float>(nibble(b + 66, j / 2))) * 0.25f;
      const unsigned q = load<std::uint16_t>(b + 2 + 2 * j);
      put_iq2(y + 8 * j, scale, kGrid_iq2_xs[q & 511], signs_of_7_bits(q >> 9));
    }
  });
}

// f16 scale, 32 low index bytes, 32 sign bytes, 32 high index pairs, 16 scales of 4 bits.
void dequantize_iq2_s(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<82, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int j = 0; j < 32; ++j) {
      const float scale = d * (0.5f + static_cast<float>(nibble(b + 74, j / 2))) * 0.25f;
      const int high = (b[66 + j / 4] >> (2 * (j % 4))) & 3;
      put_iq2(y + 8 * j, scale, kGrid_iq2_s[b[2 + j] | high << 8], b[34 + j]);
    }
  });
}

// f16 scale, 64 grid indices, then for each 32 elements a word of four 7-bit signs and a 4-bit scale.
void dequantize_iq3_xxs(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<98, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int j = 0; j < 64; ++j) {
      const std::uint32_t word = load<std::uint32_t>(b + 66 + 4 * (j / 8));
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
      const unsigned signs = signs_of_7_bits((word >> (7 * ((j / 2) % 4))) & 127);
      put_iq3(y + 4 * j, scale, kLevels_iq3_xxs, kGrid_iq3_xxs[b[2 + j]], signs >> (4 * (j % 2)));
    }
  });
}

// f16 scale, 64 low index bytes, 64 high index bits, 64 nibbles of signs, 8 scales of 4 bits.
void dequantize_iq3_s(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<110, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int j = 0; j < 64; ++j) {
      const float scale = d * static_cast<float>(1 + 2 * nibble(b + 106, j / 8));
      const int high = (b[66 + j / 8] >> (j % 8)) & 1;
      put_iq3(y + 4 * j, scale, kLevels_iq3_s, kGrid_iq3_s[b[2 + j] | high << 8], static_cast<unsigned>(nibble(b + 74, j)));
    }
  });
}

// f16 scale, 32 low index bytes, then for each 32 elements a word of four 3-bit high indices, a 3-bit scale and the sign of delta.
void dequantize_iq1_s(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<50, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int j = 0; j < 32; ++j) {
      const int word = load<std::uint16_t>(b + 34 + 2 * (j / 4));
      const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
      const int high = (word >> (3 * (j % 4))) & 7;
      put_iq1(y + 8 * j, scale, kGrid_iq1[b[2 + j] | high << 8], word & 0x8000 ? -0.125f : 0.125f);
    }
  });
}

// 32 low index bytes, 32 nibbles of 3-bit high index and the sign of delta, then four words: their low 12 bits are four 3-bit scales, their
// high nibbles together the f16 scale.
void dequantize_iq1_m(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<56, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    std::uint16_t word[4], half = 0;
    for (int i = 0; i < 4; ++i) {
      word[i] = load<std::uint16_t>(b + 48 + 2 * i);
      half = static_cast<std::uint16_t>(half | (word[i] >> 12) << (4 * i));
    }
    const float d = f16_to_f32(half);
    for (int j = 0; j < 32; ++j) {
      const int group = j / 2, high = nibble(b + 32, j);
      const float scale = d * static_cast<float>(2 * ((word[group / 4] >> (3 * (group % 4))) & 7) + 1);
      put_iq1(y + 8 * j, scale, kGrid_iq1[b[j] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f);
    }
  });
}

// f16 scale, eight high bit pairs of the scales, their low nibbles, then 16 bytes for each 32 elements: low nibbles first.
void dequantize_iq4_xs(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<136, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    const int high = load<std::uint16_t>(b + 2);
    for (int g = 0; g < 8; ++g) {
      const float scale = d * static_cast<float>((nibble(b + 4, g) | ((high >> (2 * g)) & 3) << 4) - 32);
      const std::uint8_t* q = b + 8 + 16 * g;
      for (int i = 0; i < 16; ++i) {
        y[32 * g + i] = scale * static_cast<float>(kLevelsIq4[q[i] & 15]);
        y[32 * g + 16 + i] = scale * static_cast<float>(kLevelsIq4[q[i] >> 4]);
      }
    }
  });
}

}  // namespace quern::dtypes::detail
