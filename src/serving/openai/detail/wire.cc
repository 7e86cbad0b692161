#include "serving/openai/detail/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "templates/text.h"

namespace quern::openai::detail {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

/// JSON has no infinity: a token that cannot be had gets what others send for it.
std::string number(float logprob) { return std::isfinite(logprob) ? fmt::format("{}", logprob) : "-9999.0"; }

void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  if (!templates::is_valid_utf8(text)) return append_quoted(out, templates::to_valid_utf8(text));
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string error_json(int status, std::string_view message, std::string_view param, std::string_view code) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})", quoted(message), type_of(status),
                     param.empty() ? "null" : quoted(param), code.empty() ? "null" : quoted(code));
}

http::Response error_response(const Refusal& refusal) {
  http::Response response{.status = refusal.status, .body = error_json(refusal.status, refusal.message, refusal.param, refusal.code)};
  if (refusal.status == 429 || refusal.status == 503) response.headers.emplace_back("retry-after", std::to_string(refusal.retry_after));
  return response;
}

Refusal refusal_of(Code code, const std::string& message) {
  switch (code) {
    case Code::invalid_argument:
    case Code::unsupported: return {400, message};
    case Code::not_found: return {404, message};
    case Code::resource_exhausted: return {503, message, "", "resource_exhausted"};
    case Code::cancelled: return {504, message, "", "timeout"};  // by its deadline
    case Code::data_corrupt:
    case Code::internal: break;
  }
  return {500, message};
}
Refusal refusal_of(const Error& error) { return refusal_of(error.code(), error.what()); }

std::string usage_json(const Usage& u) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}},)"
                     R"("completion_tokens_details":{{"reasoning_tokens":0}}}})",
                     u.prompt, u.generated, u.prompt + u.generated, u.cached);
}

std::string header_names(const std::vector<std::string>& fields) {
  constexpr int kMost = 16;
  std::string names;
  int count = 0;
  for (const std::string& name : fields)
    if (http::is_plain_word(name) && ++count <= kMost) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::int64_t characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string ids_json(std::span<const std::int32_t> ids) { return fmt::format("[{}]", fmt::join(ids, ",")); }

std::string Logprobs::name_of(std::int32_t id) const {
  return tokens_as_ids_ ? fmt::format("token_id:{}", id) : std::string(tokenizer_.token_bytes(id));
}

/// The members of a chat's token, without braces.
void Logprobs::append_token(std::string& out, const engine::TokenLogprob& token) const {
  const std::string_view bytes = tokenizer_.token_bytes(token.id);
  out += "\"token\":";
  append_quoted(out, name_of(token.id));
  fmt::format_to(std::back_inserter(out), ",\"logprob\":{},\"bytes\":[", number(token.logprob));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  out += ']';
}

void Logprobs::add(const engine::Event& event) {
  for (std::size_t i = 0; i < event.logprobs.size(); ++i) add_token(event.logprobs[i], event.top[i]);
}

void Logprobs::add_token(const engine::TokenLogprob& chosen, const std::vector<engine::TokenLogprob>& others) {
  std::string top;
  if (chat_) {
    std::string entry = "{";
    append_token(entry, chosen);
    for (const engine::TokenLogprob& other : others) {
      top += top.empty() ? "{" : ",{";
      append_token(top, other);
      top += '}';
    }
    append_item(tokens_, entry + ",\"top_logprobs\":[" + top + "]}");
    return;
  }
  const auto append = [&](const engine::TokenLogprob& t) { append_item(top, quoted(name_of(t.id)) + ":" + number(t.logprob)); };
  bool among = false;
  for (const engine::TokenLogprob& other : others) {
    append(other);
    among |= other.id == chosen.id;
  }
  if (!among) append(chosen);
  append_item(tokens_, quoted(name_of(chosen.id)));
  append_item(values_, number(chosen.logprob));
  append_item(tops_, "{" + top + "}");
  append_item(offsets_, std::to_string(offset_));
  if (!tokenizer_.is_special(chosen.id)) offset_ += characters(tokenizer_.token_bytes(chosen.id));
}

void Logprobs::add_prompt(std::span<const std::int32_t> ids, const engine::PromptReading& prompt) {
  append_item(tokens_, quoted(name_of(ids.front())));
  append_item(values_, "null");
  append_item(tops_, "null");
  append_item(offsets_, std::to_string(offset_));
  if (!tokenizer_.is_special(ids.front())) offset_ += characters(tokenizer_.token_bytes(ids.front()));
  for (std::size_t i = 0; i < prompt.logprobs.size(); ++i) add_token(prompt.logprobs[i], prompt.top[i]);
}

std::string Logprobs::prompt_json(const engine::PromptReading& prompt) const {
  std::string list = "[null";
  for (std::size_t i = 0; i < prompt.logprobs.size(); ++i) {
    std::string entry;
    const auto append = [&](const engine::TokenLogprob& t) {
      append_item(entry, fmt::format(R"("{}":{{"logprob":{},"rank":{},"decoded_token":{}}})", t.id, number(t.logprob), t.rank,
                                     quoted(tokenizer_.token_bytes(t.id))));
    };
    append(prompt.logprobs[i]);
    for (const engine::TokenLogprob& other : prompt.top[i])
      if (other.id != prompt.logprobs[i].id) append(other);
    list += ",{" + entry + "}";
  }
  return list + "]";
}

std::string Logprobs::take() {
  std::string all = chat_ ? fmt::format(R"({{"content":[{}],"refusal":null}})", tokens_)
                          : fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})", tokens_,
                                        values_, tops_, offsets_);
  for (std::string* list : {&tokens_, &values_, &tops_, &offsets_}) list->clear();
  return all;
}

}  // namespace quern::openai::detail
