#include "dtypes/dequantize.h"

#include <cstring>

#include "base/error.h"
#include "base/float16.h"

namespace quern::dtypes {

void dequantize(ir::DType type, const std::byte* src, float* dst, std::int64_t elements) {
  const std::int64_t be = ir::block_elements(type), bb = ir::block_bytes(type);
  for (std::int64_t b = 0; b < elements / be; ++b, src += bb, dst += be) {
    const auto* u = reinterpret_cast<const std::uint8_t*>(src);
    std::uint16_t h[2];
    std::memcpy(h, src, 2);
    switch (type) {
      case ir::DType::f32: std::memcpy(dst, src, 4); break;
      case ir::DType::f16: *dst = f16_to_f32(h[0]); break;
      case ir::DType::bf16: *dst = bf16_to_f32(h[0]); break;
      case ir::DType::q4_1: {
        std::memcpy(h, src, 4);
        const float d = f16_to_f32(h[0]), m = f16_to_f32(h[1]);
        for (int i = 0; i < 16; ++i) dst[i] = float(u[4 + i] & 15) * d + m, dst[16 + i] = float(u[4 + i] >> 4) * d + m;
        break;
      }
      case ir::DType::q8_0: {
        const float d = f16_to_f32(h[0]);
        for (int i = 0; i < 32; ++i) dst[i] = float(static_cast<std::int8_t>(u[2 + i])) * d;
        break;
      }
      default: throw Error(Code::unsupported, "dequantize: " + std::string(ir::name(type)));
    }
  }
}

}  // namespace quern::dtypes
