// Plain element types, and the formats with one scale (and perhaps one minimum) a small block.
#include "dtypes/detail/blocks.h"

namespace quern::dtypes::detail {
namespace {

template <class T>
void convert(const std::uint8_t* src, float* dst, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = static_cast<float>(load<T>(src + i * std::int64_t(sizeof(T))));
}

// Levels of E2M1 are kept doubled (dtypes/levels.h), so their scales are halved to match.

// Half of 2^(e - 127). The two smallest are subnormal floats. The format's NaN (255) is read as a number, as everybody does.
float half_of_e8m0(std::uint8_t e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : std::uint32_t(e - 1) << 23); }

// Half of an E4M3 scale; its sign bit is not used, and the NaN code 0x7f (not 0xff) counts as zero.
float half_of_e4m3(std::uint8_t x) {
  if (x == 0x7f) return 0.0f;
  const int exponent = (x >> 3) & 15, mantissa = x & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return static_cast<float>(8 + mantissa) * std::bit_cast<float>(std::uint32_t(exponent - 7 - 4 + 127) << 23);
}

}  // namespace

void dequantize_f32(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  if (blocks > 0) std::memcpy(dst, src, static_cast<std::size_t>(blocks) * sizeof(float));
}
void dequantize_f64(const std::uint8_t* src, float* dst, std::int64_t blocks) { convert<double>(src, dst, blocks); }
void dequantize_i8(const std::uint8_t* src, float* dst, std::int64_t blocks) { convert<std::int8_t>(src, dst, blocks); }
void dequantize_i16(const std::uint8_t* src, float* dst, std::int64_t blocks) { convert<std::int16_t>(src, dst, blocks); }
void dequantize_i32(const std::uint8_t* src, float* dst, std::int64_t blocks) { convert<std::int32_t>(src, dst, blocks); }
void dequantize_i64(const std::uint8_t* src, float* dst, std::int64_t blocks) { convert<std::int64_t>(src, dst, blocks); }

void dequantize_f16(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = load_f16(src + 2 * i);
}

void dequantize_bf16(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = bf16_to_f32(load<std::uint16_t>(src + 2 * i));
}

// f16 scale, 128 bits: -scale or +scale.
void dequantize_q1_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<18, 128>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 128; ++i) y[i] = (b[2 + i / 8] >> (i % 8)) & 1 ? d : -d;
  });
}

// f16 scale, 64 fields of 2 bits: -1, 0, 1, 2.
void dequantize_q2_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<18, 64>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 64; ++i) y[i] = static_cast<float>(((b[2 + i / 4] >> (2 * (i % 4))) & 3) - 1) * d;
  });
}

// f16 scale, 16 bytes: the low nibbles are elements 0 to 15, the high ones 16 to 31.
void dequantize_q4_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<18, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>((b[2 + i] & 15) - 8) * d;
      y[i + 16] = static_cast<float>((b[2 + i] >> 4) - 8) * d;
    }
  });
}

// f16 scale, f16 minimum, nibbles as in q4_0.
void dequantize_q4_1(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<20, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b), m = load_f16(b + 2);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>(b[4 + i] & 15) * d + m;
      y[i + 16] = static_cast<float>(b[4 + i] >> 4) * d + m;
    }
  });
}

// f16 scale, 32 fifth bits, nibbles as in q4_0.
void dequantize_q5_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<22, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    const std::uint32_t high = load<std::uint32_t>(b + 2);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>(int((b[6 + i] & 15u) | ((high >> i) & 1u) << 4) - 16) * d;
      y[i + 16] = static_cast<float>(int((b[6 + i] >> 4) | ((high >> (i + 16)) & 1u) << 4) - 16) * d;
    }
  });
}

// f16 scale, f16 minimum, 32 fifth bits, nibbles.
void dequantize_q5_1(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<24, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b), m = load_f16(b + 2);
    const std::uint32_t high = load<std::uint32_t>(b + 4);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>((b[8 + i] & 15u) | ((high >> i) & 1u) << 4) * d + m;
      y[i + 16] = static_cast<float>((b[8 + i] >> 4) | ((high >> (i + 16)) & 1u) << 4) * d + m;
    }
  });
}

// f16 scale, 32 signed bytes.
void dequantize_q8_0(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<34, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(static_cast<std::int8_t>(b[2 + i])) * d;
  });
}

// f16 scale, f16 scale * sum of the bytes (for products; not needed here), 32 signed bytes.
void dequantize_q8_1(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<36, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(static_cast<std::int8_t>(b[4 + i])) * d;
  });
}

// f16 scale, nibbles as in q4_0 that index a fixed list of levels.
void dequantize_iq4_nl(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<18, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = load_f16(b);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>(kLevelsIq4[b[2 + i] & 15]) * d;
      y[i + 16] = static_cast<float>(kLevelsIq4[b[2 + i] >> 4]) * d;
    }
  });
}

// E8M0 scale, nibbles as in q4_0 that are E2M1 floats.
void dequantize_mxfp4(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<17, 32>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    const float d = half_of_e8m0(b[0]);
    for (int i = 0; i < 16; ++i) {
      y[i] = static_cast<float>(kLevelsE2m1[b[1 + i] & 15]) * d;
      y[i + 16] = static_cast<float>(kLevelsE2m1[b[1 + i] >> 4]) * d;
    }
  });
}

// Four E4M3 scales, then four groups of 8 bytes: 16 E2M1 floats each, low nibbles first.
void dequantize_nvfp4(const std::uint8_t* src, float* dst, std::int64_t blocks) {
  each_block<36, 64>(src, dst, blocks, [](const std::uint8_t* b, float* y) {
    for (int group = 0; group < 4; ++group) {
      const float d = half_of_e4m3(b[group]);
      const std::uint8_t* q = b + 4 + 8 * group;
      for (int i = 0; i < 8; ++i) {
        y[16 * group + i] = static_cast<float>(kLevelsE2m1[q[i] & 15]) * d;
        y[16 * group + 8 + i] = static_cast<float>(kLevelsE2m1[q[i] >> 4]) * d;
      }
    }
  });
}

}  // namespace quern::dtypes::detail
