#include "cli/model_file.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"

namespace quern::cli {

FileKind file_kind(const std::string& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), std::min<std::size_t>(file.bytes().size(), 64));
  const std::string_view name(path);
  if (bytes.starts_with("GGUF") || name.ends_with(".gguf")) return FileKind::gguf;
  if (name.ends_with(".onnx")) return FileKind::onnx;
  if (bytes.empty()) throw Error(Code::data_corrupt, "the file is empty").at(path).hint("download it again");
  if (name.ends_with(".safetensors") || (bytes.size() > 9 && bytes[8] == '{' && bytes[9] == '"'))
    throw Error(Code::unsupported, "safetensors files are not supported yet").at(path).hint("use the model's GGUF or ONNX file");
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02"))
    throw Error(Code::unsupported, "PyTorch files are not supported").at(path).hint("use the model's GGUF or ONNX file");
  if (bytes.starts_with("version https://git-lfs"))
    throw Error(Code::data_corrupt, "this is a pointer of Git LFS, not the model")
        .at(path)
        .hint("fetch the file itself, with `git lfs pull`");
  // A serialised ONNX model begins with its IR version: field 1, a small number.
  if (bytes.size() > 2 && bytes[0] == '\x08' && bytes[1] > 0 && bytes[1] < 32) return FileKind::onnx;
  throw Error(Code::data_corrupt, "this is neither a GGUF nor an ONNX model").at(path);
}

}  // namespace quern::cli
