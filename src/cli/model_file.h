#pragma once

#include <string>

namespace quern::cli {

enum class FileKind { gguf, onnx };

/// Tells a model file by its first bytes, and by its name where they do not tell (ONNX has no mark of its own).
/// Errors: not_found (no such file, a directory), unsupported (a format that we know and cannot read), data_corrupt (nothing that we know).
FileKind file_kind(const std::string& path);

}  // namespace quern::cli
