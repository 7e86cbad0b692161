#include "engine/detail/answer_text.h"

#include <algorithm>
#include <utility>

namespace quern::engine::detail {

AnswerText::AnswerText(const tokenizers::Tokenizer& tokenizer, std::vector<std::string> stops)
    : decoder_(tokenizer, {.skip_special = true, .continues = true}) {
  stops_.reserve(stops.size());
  for (std::string& text : stops) {
    Stop stop{std::move(text), {}};
    stop.fallback.assign(stop.text.size() + 1, 0);
    for (std::size_t i = 1, k = 0; i < stop.text.size(); ++i) {
      while (k > 0 && stop.text[i] != stop.text[k]) k = stop.fallback[k];
      if (stop.text[i] == stop.text[k]) ++k;
      stop.fallback[i + 1] = static_cast<std::uint32_t>(k);
    }
    stops_.push_back(std::move(stop));
  }
}

bool AnswerText::add(std::string_view text) {
  if (found_ != kNone) return true;
  if (stops_.empty()) {
    text_ += text;
    return false;
  }
  for (const char c : text) {
    text_ += c;
    held_ = 0;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      Stop& stop = stops_[i];
      std::uint32_t& k = stop.matched;
      while (k > 0 && stop.text[k] != c) k = stop.fallback[k];
      if (stop.text[k] == c) ++k;
      held_ = std::max<std::size_t>(held_, k);
      if (k == stop.text.size() && (found_ == kNone || stop.text.size() > stops_[found_].text.size())) found_ = i;
    }
    if (found_ == kNone) continue;
    text_.resize(text_.size() - stops_[found_].text.size());
    held_ = 0;
    return true;
  }
  return false;
}

bool AnswerText::finish() {
  const bool stopped = add(decoder_.finish());
  held_ = 0;
  return stopped;
}

std::string AnswerText::take() {
  std::string text = text_.substr(0, text_.size() - held_);
  text_.erase(0, text.size());
  return text;
}

}  // namespace quern::engine::detail
