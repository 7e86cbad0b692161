#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "templates/arguments.h"

// The filter urlize: addresses in a text become links, by jinja2's rules of what an address is.
namespace quern::templates {
namespace {

bool is_latin(char32_t c) {  // [a-z] where case does not count; the last four are what Python folds onto i, s and k
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == 0x130 || c == 0x131 || c == 0x17f || c == 0x212a;
}
bool is_hex(char32_t c) { return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_label(char32_t c) { return is_word(c) || c == '%' || c == '-'; }

template <typename Holds>
bool all(std::string_view text, std::size_t least, std::size_t most, Holds holds) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count)
    if (!holds(next_code_point(text, i))) return false;
  return count >= least && count <= most;
}

bool begins(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() && std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
         });
}

// The last label of a host, and whether all before it (each with its dot) are made of `least` to `most` characters that may be there.
bool split_host(std::string_view host, std::size_t least, std::size_t most, std::string_view& last) {
  while (true) {
    const std::size_t dot = host.find('.');
    if (dot == host.npos) break;
    if (!all(host.substr(0, dot), least, most, is_label)) return false;
    host.remove_prefix(dot + 1);
  }
  last = host;
  return true;
}

bool is_top(std::string_view label) {
  if (begins(label, "xn--") && all(label.substr(4), 2, 59, [](char32_t c) { return is_word(c) || c == '%'; })) return true;
  return all(label, 2, 63, is_latin);
}

bool is_known_top(std::string_view label) {
  static constexpr std::string_view kNames[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view n) { return n.size() == label.size() && begins(label, n); });
}

bool is_ip4(std::string_view host) {
  int parts = 1;
  for (; host.find('.') != host.npos; ++parts) {
    if (!all(host.substr(0, host.find('.')), 1, 3, is_decimal)) return false;
    host.remove_prefix(host.find('.') + 1);
  }
  return parts == 4 && all(host, 1, 3, is_decimal);
}

// What stands between the brackets: up to eight groups of up to four digits, the first two with their colons.
bool is_ip6(std::string_view host) {
  int groups = 0;
  for (; groups < 8 && (groups < 3 || !host.empty()); ++groups) {
    std::size_t end = 0;
    for (int digits = 0; digits < 4 && end < host.size(); ++digits) {
      std::size_t next = end;
      if (!is_hex(next_code_point(host, next))) break;
      end = next;
    }
    const bool colon = host.substr(end, 1) == ":";
    if (groups < 2 && !colon) return false;
    host.remove_prefix(end + colon);
  }
  return host.empty();
}

// A port and a path, or nothing.
bool is_rest(std::string_view text) {
  if (text.starts_with(':')) {
    std::size_t end = 1;
    for (int digits = 0; digits < 5 && end < text.size(); ++digits) {
      std::size_t next = end;
      if (!is_decimal(next_code_point(text, next))) break;
      end = next;
    }
    if (end == 1) return false;
    text.remove_prefix(end);
  }
  return text.empty() || text[0] == '/' || text[0] == '?' || text[0] == '#';
}

bool is_web_address(std::string_view text) {
  const std::size_t scheme = begins(text, "https://") ? 8 : begins(text, "http://") ? 7 : 0;
  const std::size_t start = scheme != 0 ? scheme : begins(text, "www.") ? 4 : 0;
  if (scheme != 0 && text.substr(scheme, 1) == "[") {
    const std::size_t close = text.find(']');
    return close != text.npos && is_ip6(text.substr(scheme + 1, close - scheme - 1)) && is_rest(text.substr(close + 1));
  }
  const std::size_t end = std::min(text.find_first_of(":/?#", start), text.size());
  if (!is_rest(text.substr(end))) return false;
  std::string_view last;
  const std::string_view host = text.substr(start, end - start);
  if (start != 0 && split_host(host, 1, host.npos, last) && is_top(last)) return true;
  if (scheme != 0) return is_ip4(host);
  const std::string_view whole = text.substr(0, end);
  return whole.find('.') != whole.npos && split_host(whole, 2, 63, last) && is_known_top(last);
}

bool is_mail_address(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at == text.npos || at == 0) return false;
  const std::string_view domain = text.substr(at + 1);
  const std::size_t dot = domain.rfind('.');
  if (dot == domain.npos || dot == 0 || !all(domain.substr(dot + 1), 1, domain.npos, is_word)) return false;
  std::size_t first = 0;
  return is_word(next_code_point(domain, first)) &&
         all(domain.substr(0, dot), 1, domain.npos, [](char32_t c) { return is_word(c) || c == '.' || c == '-'; });
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t pos = 0; (pos = text.find(what, pos)) != text.npos; pos += what.size()) ++n;
  return n;
}

// A word without the brackets and stops around it.
struct Word {
  std::string_view head, middle, tail;

  explicit Word(std::string_view word) {
    std::size_t begin = 0, end = word.size();
    for (std::size_t size = 1; size != 0; begin += size)
      size = word.substr(begin, 4) == "&lt;" ? 4 : begin < word.size() && (word[begin] == '(' || word[begin] == '<') ? 1 : 0;
    for (std::size_t size = 1; size != 0; end -= size) {
      const std::string_view rest = word.substr(begin, end - begin);
      size = rest.ends_with("&gt;") ? 4 : !rest.empty() && std::string_view(")>.,").find(rest.back()) != rest.npos ? 1 : 0;
    }
    head = word.substr(0, begin);
    static constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    for (const auto& [open, close] : kBrackets) {  // a bracket that was opened inside belongs inside
      const std::size_t opened = count_of(word.substr(begin, end - begin), open);
      if (opened <= count_of(word.substr(begin, end - begin), close)) continue;
      std::size_t moves = std::min(opened, count_of(word.substr(end), close));
      while (moves-- > 0) end = word.find(close, end) + close.size();
    }
    middle = word.substr(begin, end - begin);
    tail = word.substr(end);
  }
};

std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : " " + std::string(name) + "=\"" + html_escape(value) + "\"";
}

std::string relations(std::string_view given, bool nofollow) {
  std::set<std::string> words{"noopener"};
  if (nofollow) words.insert("nofollow");
  std::string word;
  for (std::size_t i = 0; i <= given.size();) {
    const char32_t c = i < given.size() ? next_code_point(given, i) : (++i, U' ');
    if (!is_space(c)) {
      append_code_point(word, c);
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

std::vector<std::string_view> schemes_of(Render& r, const Value& given) {
  std::vector<std::string_view> schemes;
  if (!is_given(given) || !truth(given)) return schemes;
  const List* items = iterate(r.heap(), given);
  for (std::size_t i = 0; i < items->size; ++i) {
    const std::string_view scheme = required_text(items->at(i));
    const std::size_t colon = scheme.find(':');
    const std::string_view slashes = colon == scheme.npos ? "?" : scheme.substr(colon + 1);
    const auto holds = [](char32_t c) { return is_word(c) || c == '.' || c == '+' || c == '-'; };
    if (!all(scheme.substr(0, colon), 2, scheme.npos, holds) || (slashes != "" && slashes != "/" && slashes != "//"))
      bad_argument(string_repr(scheme) + " is not a valid URI scheme prefix.");
    schemes.push_back(scheme);
  }
  return schemes;
}

}  // namespace

Value link_addresses(Render& r, const Value& self, const Value* a, const Arguments&) {
  const Value &rel = a[3], &extra = a[4];
  Value text = to_string(r.heap(), self);
  if (!text.markup) text = derived(r, text, html_escape(text.text()));
  const std::vector<std::string_view> schemes = schemes_of(r, extra);
  const std::string more = attribute("rel", relations(is_given(rel) ? required_text(rel) : "", flag(a[1]))) +
                           attribute("target", is_given(a[2]) ? to_string(r.heap(), a[2]).text() : "");
  const bool untrusted = any_untrusted(*text.string);
  const auto shown = [&](std::string_view address) {
    if (!is_given(a[0])) return std::string(address);
    const std::int64_t limit = as_index(a[0]), size = static_cast<std::int64_t>(code_points(address));
    if (size <= limit) return std::string(address);
    const std::int64_t kept = limit < 0 ? std::max<std::int64_t>(0, size + limit) : limit;
    return std::string(address.substr(0, byte_offset(address, static_cast<std::size_t>(kept)))) + "...";
  };
  Writer out(r.heap());
  const auto link = [&](const std::string& to, std::string_view attributes, const std::string& words) {
    out.add("<a href=\"" + to + "\"" + std::string(attributes) + ">" + words + "</a>", untrusted);
  };
  const auto add_word = [&](std::string_view whole) {
    r.work(whole.size());
    const Word word(whole);
    const std::string middle(word.middle);
    out.add(word.head, untrusted);
    bool linked = true;
    if (is_web_address(middle)) {
      link((middle.starts_with("https://") || middle.starts_with("http://") ? "" : "https://") + middle, more, shown(middle));
    } else if (middle.starts_with("mailto:") && is_mail_address(middle.substr(7))) {
      link(middle, "", middle.substr(7));
    } else if (middle.find('@') != middle.npos && !middle.starts_with("www.") && !middle.starts_with("@") &&
               middle.find(':') == middle.npos && is_mail_address(middle)) {
      link("mailto:" + middle, "", middle);
    } else {
      linked = false;
      for (const std::string_view scheme : schemes) {
        if (linked || middle == scheme || !middle.starts_with(scheme)) continue;
        link(middle, more, middle);
        linked = true;
      }
    }
    if (!linked) out.add(middle, untrusted);
    out.add(word.tail, untrusted);
  };
  const std::string_view view = text.text();
  for (std::size_t begin = 0, at = 0; begin < view.size(); begin = at) {
    bool first = true, space = false;
    while (at < view.size()) {
      std::size_t next = at;
      const bool now = is_space(next_code_point(view, next));
      if (!first && now != space) break;
      first = false;
      space = now;
      at = next;
    }
    space ? out.add(*text.string, begin, at) : add_word(view.substr(begin, at - begin));
  }
  return out.take(r.escaping());
}

}  // namespace quern::templates
