// Blocks of 256 elements with scales of their own for groups of 16 or 32 (the K formats), and the ternary formats.
#include "dtypes/detail/blocks.h"

namespace quern::dtypes::detail {
namespace {

struct ScaleMin {
  int scale, min;
};

// Group g (0 to 7) of the twelve bytes that hold eight 6-bit scales and eight 6-bit minima in q4_K and q5_K: the first four of each lie in
// bytes 0-3 and 4-7; the low four bits of the others in bytes 8-11, their two high bits on top of the first ones.
ScaleMin scale_min(const std::uint8_t* s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | ((s[g - 4] >> 6) << 4), (s[g + 4] >> 4) | ((s[g] >> 6) << 4)};
}

}  // namespace

// 16 bytes of 4-bit scale and minimum, 64 bytes of 2-bit values, f16 scale, f16 minimum. Values lie in halves of 128 elements = 32 bytes,
// a bit pair for each run of 32 elements.
void dequantize_q2_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<84, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b + 80), dmin = load_f16(b + 82);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(b[g] & 15), min = dmin * static_cast<float>(b[g] >> 4);
      const std::uint8_t* q = b + 16 + 32 * (g / 8) + 16 * (g % 2);
      const int shift = 2 * ((g / 2) % 4);
      for (int i = 0; i < 16; ++i) y[16 * g + i] = scale * static_cast<float>((q[i] >> shift) & 3) - min;
    }
  });
}

// 32 bytes of third bits (bit r is run r of 32 elements; a clear bit subtracts 4), 64 bytes of low bits as in q2_K, sixteen 6-bit scales in
// 12 bytes, f16 scale.
void dequantize_q3_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<110, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b + 108);
    const std::uint8_t* s = b + 96;
    for (int g = 0; g < 16; ++g) {
      const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const std::uint8_t* q = b + 32 + 32 * (g / 8) + 16 * (g % 2);
      const std::uint8_t* third = b + 16 * (g % 2);
      const int shift = 2 * ((g / 2) % 4), run = g / 2;
      for (int i = 0; i < 16; ++i) y[16 * g + i] = scale * static_cast<float>(((q[i] >> shift) & 3) - ((third[i] >> run) & 1 ? 0 : 4));
    }
  });
}

// f16 scale, f16 minimum, 12 bytes of scales and minima, 128 bytes: low nibbles are a run of 32 elements, high nibbles the next.
void dequantize_q4_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<144, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b), dmin = load_f16(b + 2);
    for (int g = 0; g < 8; ++g) {
      const ScaleMin s = scale_min(b + 4, g);
      const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
      const std::uint8_t* q = b + 16 + 32 * (g / 2);
      const int shift = 4 * (g % 2);
      for (int i = 0; i < 32; ++i) y[32 * g + i] = scale * static_cast<float>((q[i] >> shift) & 15) - min;
    }
  });
}

// As q4_K, with 32 bytes of fifth bits before the nibbles: bit g is run g.
void dequantize_q5_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<176, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b), dmin = load_f16(b + 2);
    const std::uint8_t* fifth = b + 16;
    for (int g = 0; g < 8; ++g) {
      const ScaleMin s = scale_min(b + 4, g);
      const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
      const std::uint8_t* q = b + 48 + 32 * (g / 2);
      const int shift = 4 * (g % 2);
      for (int i = 0; i < 32; ++i) {
        const int value = ((q[i] >> shift) & 15) | ((fifth[i] >> g) & 1) << 4;
        y[32 * g + i] = scale * static_cast<float>(value) - min;
      }
    }
  });
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, f16 scale. Both lie in halves of 128 elements.
void dequantize_q6_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<210, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b + 208);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(b[192 + g]));
      const int half = g / 8, run = (g / 2) % 4;  // runs 0 and 1 are low nibbles, 2 and 3 high ones
      const std::uint8_t* low = b + 64 * half + 32 * (run % 2) + 16 * (g % 2);
      const std::uint8_t* high = b + 128 + 32 * half + 16 * (g % 2);
      for (int i = 0; i < 16; ++i) {
        const int value = ((low[i] >> (4 * (run / 2))) & 15) | ((high[i] >> (2 * run)) & 3) << 4;
        y[16 * g + i] = scale * static_cast<float>(value - 32);
      }
    }
  });
}

// f32 scale, 256 signed bytes, 16 sums of 16 (for products; not needed here).
void dequantize_q8_K(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<292, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load<float>(b);
    for (int i = 0; i < 256; ++i) y[i] = d * static_cast<float>(static_cast<std::int8_t>(b[4 + i]));
  });
}

// Five base-3 digits a byte, as a fraction of 256: times 3^n (mod 256), the next digit is the integer part of three times it. 32 bytes hold
// elements 0-159, 16 bytes 160-239, and 4 bytes of four digits the rest; f16 scale.
void dequantize_tq1_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<54, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b + 52);
    const auto digits = [&](const std::uint8_t* q, int bytes, int count) {
      for (int n = 0, power = 1; n < count; ++n, power *= 3)
        for (int i = 0; i < bytes; ++i) *y++ = static_cast<float>((((q[i] * power) & 255) * 3 >> 8) - 1) * d;
    };
    digits(b, 32, 5);
    digits(b + 32, 16, 5);
    digits(b + 48, 4, 4);
  });
}

// 64 bytes of 2-bit values as in q2_K, f16 scale.
void dequantize_tq2_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<66, 256>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b + 64);
    for (int run = 0; run < 8; ++run)
      for (int i = 0; i < 32; ++i) y[32 * run + i] = static_cast<float>(((b[32 * (run / 4) + i] >> (2 * (run % 4))) & 3) - 1) * d;
  });
}

}  // namespace quern::dtypes::detail
