#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"

/// NumPy's .npy files, versions 1.0 to 3.0 of the format: every plain element type, little-endian.
/// bfloat16, which NumPy has not, is written as the two-byte void type `<V2`, as the package ml_dtypes does.
namespace quern::npy {

/// A dense row-major array. `bytes` lie in what `owner` keeps alive (for a file that was read: its mapping); alignment is not guaranteed.
struct Array {
  ir::DType dtype = ir::DType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Maps the file; column-major ("fortran_order") arrays are copied into row-major order, all others are not copied.
/// Errors: not_found, data_corrupt (with the offset), unsupported (big-endian, structured, complex, text or object arrays; rank over 32).
Array read_file(const std::string& path);

/// The same from the bytes of a file; the array's bytes stay views of `file`, whose owner is `owner`. `path` is for messages.
Array read(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& path);

/// The header that precedes the data of such an array: a multiple of 64 bytes, as NumPy writes it. Errors: unsupported (a block type).
std::string header(ir::DType dtype, std::span<const std::int64_t> shape);

/// Writes a file, replacing what was there. Errors: invalid_argument (bytes do not fit the shape; the file cannot be written), unsupported.
void write_file(const std::string& path, ir::DType dtype, std::span<const std::int64_t> shape, std::span<const std::byte> bytes);
void write_file(const std::string& path, const Array& array);

}  // namespace quern::npy
