#include <algorithm>

#include "templates/arguments.h"
#include "templates/sort.h"

// The filter pprint, as Python's pprint: on one line if that has room in 80 columns, else an item a line, and long texts in pieces.
namespace quern::templates {
namespace {

constexpr std::size_t kWidth = 80;
constexpr int kMaxDepth = 100;

// Keys as they sort; those that have no order by the names of their types.
std::vector<const Entry*> sorted(Render& r, const Dict& dict) {
  r.heap().charge(dict.size * sizeof(const Entry*));
  std::vector<const Entry*> entries(dict.size);
  for (std::size_t i = 0; i < dict.size; ++i) entries[i] = &dict.entries[i];
  sort_stably(entries.data(), entries.size(), [&](const Entry* a, const Entry* b) {
    r.work(16);
    try {
      return compare(a->key, b->key) < 0;
    } catch (const Error& error) {
      if (error.code() != Code::invalid_argument) throw;
      return type_name(a->key) < type_name(b->key);
    }
  });
  return entries;
}

bool is_plain_list(const Value& v) { return v.is(Kind::list) && v.list->type <= Sequence::tuple; }

class Printer {
 public:
  Printer(Render& r, Writer& out) : r_(r), out_(out) {}

  // `after`: how many columns what follows on the last line takes.
  void print(const Value& v, std::size_t indent, std::size_t after, int depth) {
    Writer line(r_.heap());
    write_line(line, v, depth);
    const bool fits = code_points(line.text()) + indent + after <= kWidth;
    if (!fits && is_plain_list(v)) return print_list(*v.list, indent + 1, after, depth + 1);
    if (!fits && v.is(Kind::dict)) return print_dict(*v.dict, indent + 1, after + 1, depth + 1);
    if (!fits && v.is(Kind::string) && !v.markup && v.string->size != 0) return print_text(v, indent, after, depth);
    out_.add(*line.take().string);
  }

 private:
  void new_line(std::size_t indent) { out_.add(",\n" + std::string(indent, ' ')); }

  void print_list(const List& list, std::size_t indent, std::size_t after, int depth) {
    const bool tuple = list.type == Sequence::tuple;
    const std::string_view end = !tuple ? "]" : list.size == 1 ? ",)" : ")";
    out_.add(tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.size; ++i) {
      if (i != 0) new_line(indent);
      print(list.at(i), indent, i + 1 == list.size ? after + end.size() : 1, depth);
    }
    out_.add(end);
  }

  void print_dict(const Dict& dict, std::size_t indent, std::size_t after, int depth) {
    const std::vector<const Entry*> entries = sorted(r_, dict);
    out_.add("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) new_line(indent);
      Writer key(r_.heap());
      write_line(key, entries[i]->key, depth);
      const std::size_t width = code_points(key.text());
      out_.add(*key.take().string);
      out_.add(": ");
      print(entries[i]->value, indent + width + 2, i + 1 == entries.size() ? after : 1, depth);
    }
    out_.add("}");
  }

  // A text by its lines, and each line that is too long by its words.
  void print_text(const Value& v, std::size_t indent, std::size_t after, int depth) {
    const bool alone = depth == 0;
    if (alone) ++indent, ++after;
    const auto width_of = [](std::string_view text) { return code_points(string_repr(text)); };
    std::vector<std::string> chunks;
    const auto add = [&](std::string_view text) {
      chunks.push_back(string_repr(text));
      r_.heap().charge(chunks.back().size());
    };
    const Value lines = split_lines(r_, v, true);
    for (std::size_t i = 0; i < lines.list->size; ++i) {
      const std::string_view line = lines.list->at(i).text();
      const bool last_line = i + 1 == lines.list->size;
      if (width_of(line) + indent + (last_line ? after : 0) <= kWidth) {
        add(line);
        continue;
      }
      std::size_t begin = 0;  // of what is not yet in a chunk
      for (std::size_t at = 0; at < line.size();) {
        std::size_t end = word_end(line, at);
        r_.work(end - begin);
        const bool last = last_line && end == line.size();
        if (at != begin && width_of(line.substr(begin, end - begin)) + indent + (last ? after : 0) > kWidth) {
          add(line.substr(begin, at - begin));
          begin = at;
        }
        at = end;
      }
      add(line.substr(begin));
    }
    const bool untrusted = any_untrusted(*v.string);
    if (alone && chunks.size() > 1) out_.add("(");
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i != 0) out_.add("\n" + std::string(indent, ' '));
      out_.add(chunks[i], untrusted);
    }
    if (alone && chunks.size() > 1) out_.add(")");
  }

  // The end of a word with the white space behind it.
  static std::size_t word_end(std::string_view line, std::size_t at) {
    bool space = false;
    while (at < line.size()) {
      std::size_t next = at;
      const bool now = is_space(next_code_point(line, next));
      if (space && !now) break;
      space = now;
      at = next;
    }
    return at;
  }

  // On one line: as repr, with the keys of dicts in order.
  void write_line(Writer& line, const Value& v, int depth) {
    if (depth > kMaxDepth) throw Error(Code::resource_exhausted, "a value is nested too deeply to print (or holds itself)");
    if (is_plain_list(v)) {
      const bool tuple = v.list->type == Sequence::tuple;
      line.add(tuple ? "(" : "[");
      for (std::size_t i = 0; i < v.list->size; ++i) {
        if (i != 0) line.add(", ");
        write_line(line, v.list->at(i), depth + 1);
      }
      return line.add(!tuple ? "]" : v.list->size == 1 ? ",)" : ")");
    }
    if (!v.is(Kind::dict)) return write_repr(line, v);
    line.add("{");
    bool first = true;
    for (const Entry* entry : sorted(r_, *v.dict)) {
      if (!first) line.add(", ");
      first = false;
      write_line(line, entry->key, depth + 1);
      line.add(": ");
      write_line(line, entry->value, depth + 1);
    }
    line.add("}");
  }

  Render& r_;
  Writer& out_;
};

}  // namespace

Value pretty(Render& r, const Value& self, const Value*, const Arguments&) {
  Writer out(r.heap());
  Printer(r, out).print(self, 0, 0, 0);
  return out.take();
}

}  // namespace quern::templates
