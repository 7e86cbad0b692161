#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/openai/request.h"

// Reading JSON of strangers.
namespace quern::openai::detail {

using Json = nlohmann::ordered_json;

/// 400 with the field's name.
[[noreturn]] void refuse(const std::string& param, std::string message, std::string code = "");
[[noreturn]] void refuse_type(const std::string& param, const char* wanted, const Json& value);
[[noreturn]] void refuse_unsupported(const std::string& param, std::string_view what);

/// Errors: Refusal (no JSON, too deep, too many values).
Json parse_json(std::string_view body, const Limits& limits);
/// As text; what is not UTF-8 becomes U+FFFD.
std::string dump(const Json& json);

/// The last of this name; null when it is absent, or null.
const Json* member(const Json& object, std::string_view name);
/// Errors: Refusal when it is no whole number or outside the range.
std::int64_t integer_of(const Json& value, const std::string& param, std::int64_t low, std::int64_t high);

/// The fields of the body, by name and type; remembers which were asked for. The body must outlive it.
class Fields {
 public:
  /// Errors: Refusal when the body is no object, or has too many fields.
  Fields(const Json& body, const Limits& limits);

  /// Null when it is absent, or null.
  const Json* get(const std::string& name);
  bool boolean(const std::string& name, bool otherwise);
  double number(const std::string& name, double low, double high, double otherwise);
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t low, std::int64_t high);
  std::string text(const std::string& name);
  const Json* array(const std::string& name, std::size_t most);

  /// Given, such a field asks for what we cannot do.
  void refuse_all(std::initializer_list<const char*> names);
  /// Such a field is fine as long as it says nothing.
  void refuse_unless(const std::string& name, double neutral);
  /// Such a field changes no answer here.
  void accept_all(std::initializer_list<const char*> names) { known_.insert(known_.end(), names.begin(), names.end()); }

  /// The names that nobody asked for.
  std::vector<std::string> ignored() const;

 private:
  const Json& body_;
  std::vector<std::string> known_;
};

}  // namespace quern::openai::detail
