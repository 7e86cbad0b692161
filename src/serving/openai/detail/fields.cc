#include "serving/openai/detail/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace quern::openai::detail {
namespace {

/// Builds the document within bounds of depth and size, in time that grows with its length. A repeated name is kept; member() finds the
/// last.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const Limits& limits) : limits_(limits) {}
  Json root;

  bool null() override { return put(nullptr), true; }
  bool boolean(bool value) override { return put(value), true; }
  bool number_integer(number_integer_t value) override { return put(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return put(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return put(value), true; }
  bool string(string_t& value) override { return put(std::move(value)), true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()), true; }
  bool start_array(std::size_t) override { return open(Json::array()), true; }
  bool key(string_t& name) override { return key_ = std::move(name), true; }
  bool end_object() override { return stack_.pop_back(), true; }
  bool end_array() override { return stack_.pop_back(), true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    refuse("", fmt::format("the body is not JSON: something is wrong at byte {}", at));
  }

 private:
  Json* put(Json value) {
    if (++items_ > limits_.json_items) refuse("", fmt::format("the body has more than {} JSON values", limits_.json_items));
    if (stack_.empty()) return &(root = std::move(value));
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &parent.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  void open(Json value) {
    if (stack_.size() >= limits_.json_depth) refuse("", fmt::format("the body is nested deeper than {} levels", limits_.json_depth));
    stack_.push_back(put(std::move(value)));
  }

  const Limits& limits_;
  std::vector<Json*> stack_;
  std::string key_;
  std::size_t items_ = 0;
};

}  // namespace

void refuse(const std::string& param, std::string message, std::string code) {
  throw Refusal(400, std::move(message), param, std::move(code));
}
void refuse_type(const std::string& param, const char* wanted, const Json& value) {
  refuse(param, fmt::format("'{}' must be {}, and is of the type {}", param, wanted, value.type_name()));
}
void refuse_unsupported(const std::string& param, std::string_view what) {
  refuse(param, fmt::format("'{}': {} is not supported", param, what), "unsupported_value");
}

const Json* member(const Json& object, std::string_view name) {
  const auto& members = object.get_ref<const Json::object_t&>();
  for (auto it = members.rbegin(); it != members.rend(); ++it)
    if (it->first == name) return it->second.is_null() ? nullptr : &it->second;
  return nullptr;
}

std::int64_t integer_of(const Json& value, const std::string& param, std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  bool fits = true;
  if (value.is_number_unsigned()) {
    const auto given = value.get<std::uint64_t>();
    fits = given <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    number = static_cast<std::int64_t>(given);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>()) {
    fits = std::abs(value.get<double>()) < 9e18;
    number = fits ? static_cast<std::int64_t>(value.get<double>()) : 0;
  } else {
    refuse_type(param, "a whole number", value);
  }
  if (!fits || number < low || number > high) refuse(param, fmt::format("'{}' must be between {} and {}", param, low, high));
  return number;
}

Fields::Fields(const Json& body, const Limits& limits) : body_(body) {
  if (!body.is_object()) refuse("", "the body must be a JSON object");
  if (body.size() > limits.fields) refuse("", fmt::format("the body has more than {} fields", limits.fields));
}

const Json* Fields::get(const std::string& name) {
  known_.push_back(name);
  return member(body_, name);
}

bool Fields::boolean(const std::string& name, bool otherwise) {
  const Json* value = get(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse_type(name, "true or false", *value);
  return value->get<bool>();
}

double Fields::number(const std::string& name, double low, double high, double otherwise) {
  const Json* value = get(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse_type(name, "a number", *value);
  const auto number = value->get<double>();
  if (!(number >= low && number <= high)) refuse(name, fmt::format("'{}' is {}; it must be between {} and {}", name, number, low, high));
  return number;
}

std::optional<std::int64_t> Fields::integer(const std::string& name, std::int64_t low, std::int64_t high) {
  const Json* value = get(name);
  return value == nullptr ? std::nullopt : std::optional(integer_of(*value, name, low, high));
}

std::string Fields::text(const std::string& name) {
  const Json* value = get(name);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse_type(name, "a string", *value);
  return value->get<std::string>();
}

const Json* Fields::array(const std::string& name, std::size_t most) {
  const Json* value = get(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) refuse_type(name, "an array", *value);
  if (value->size() > most) refuse(name, fmt::format("'{}' has {} entries; at most {} are possible", name, value->size(), most));
  return value;
}

void Fields::refuse_all(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Json* value = get(name);
    const bool nothing = value == nullptr || (value->is_boolean() && !value->get<bool>()) || (value->is_structured() && value->empty()) ||
                         (value->is_string() && value->get_ref<const std::string&>().empty());
    if (!nothing) refuse_unsupported(name, "it");
  }
}

void Fields::refuse_unless(const std::string& name, double neutral) {
  const Json* value = get(name);
  if (value != nullptr && !(value->is_number() && value->get<double>() == neutral)) refuse_unsupported(name, "it");
}

std::vector<std::string> Fields::ignored() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : body_.get_ref<const Json::object_t&>())
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) names.push_back(name);
  return names;
}

Json parse_json(std::string_view body, const Limits& limits) {
  Builder builder(limits);
  Json::sax_parse(body, &builder);
  return std::move(builder.root);
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace quern::openai::detail
