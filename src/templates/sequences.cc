#include <algorithm>

#include "templates/operators.h"
#include "templates/render.h"

// Reading containers: items, slices, iteration, length; and how values print.
namespace quern::templates {
namespace {

constexpr int kMaxDepth = 256;

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

Value missing(Heap& heap, const Value& object, const Value& key) {
  if (key.is(Kind::string)) return undefined_attribute(object, key);
  Writer name(heap);
  write_repr(name, key);
  return undefined_attribute(object, name.take(), true);
}

struct Bounds {
  std::int64_t start, stop, step;
};

// As Python's slice.indices.
Bounds slice_bounds(std::int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto given = [](const Value& v) { return !v.is(Kind::none) && !v.is(Kind::absent); };
  Bounds b{0, 0, given(step) ? as_index(step) : 1};
  if (b.step == 0) fail("slice step cannot be zero");
  const std::int64_t low = b.step < 0 ? -1 : 0, high = b.step < 0 ? size - 1 : size;
  const auto clamp = [&](const Value& v, std::int64_t otherwise) {
    if (!given(v)) return otherwise;
    std::int64_t i = as_index(v);
    if (i < 0) i = i < -size ? low : std::max(i + size, low);
    return std::min(i, high);
  };
  b.start = clamp(start, b.step < 0 ? high : low);
  b.stop = clamp(stop, b.step < 0 ? low : high);
  return b;
}

void write_items(Writer& out, const List& list, std::string_view open, std::string_view close, int depth) {
  out.add(open);
  for (std::size_t i = 0; i < list.size; ++i) {
    if (i != 0) out.add(", ");
    write_repr(out, list.at(i), depth + 1);
  }
  if (list.size == 1 && open == "(") out.add(",");
  out.add(close);
}

void write_list(Writer& out, const List& list, int depth) {
  switch (list.type) {
    case Sequence::list: return write_items(out, list, "[", "]", depth);
    case Sequence::tuple:
    case Sequence::group: return write_items(out, list, "(", ")", depth);
    case Sequence::range: {
      out.add("range(" + std::to_string(list.start) + ", " + std::to_string(list.stop));
      if (list.step != 1) out.add(", " + std::to_string(list.step));
      return out.add(")");
    }
    case Sequence::keys: return write_items(out, list, "dict_keys([", "])", depth);
    case Sequence::values: return write_items(out, list, "dict_values([", "])", depth);
    case Sequence::items: return write_items(out, list, "dict_items([", "])", depth);
    case Sequence::generator: return out.add("<generator object>");
  }
}

void write_dict(Writer& out, const Dict& dict, int depth) {
  out.add("{");
  for (std::size_t i = 0; i < dict.size; ++i) {
    if (i != 0) out.add(", ");
    write_repr(out, dict.entries[i].key, depth + 1);
    out.add(": ");
    write_repr(out, dict.entries[i].value, depth + 1);
  }
  out.add("}");
}

}  // namespace

void write_str(Writer& out, const Value& v) {
  if (v.is(Kind::string)) return out.add(*v.string);
  if (!v.is(Kind::undefined)) write_repr(out, v);
}

void write_repr(Writer& out, const Value& v, int depth) {
  if (depth > kMaxDepth) throw Error(Code::resource_exhausted, "a value is nested too deeply to print (or holds itself)");
  switch (v.kind) {
    case Kind::absent:
    case Kind::undefined: return out.add("Undefined");
    case Kind::none: return out.add("None");
    case Kind::boolean: return out.add(v.boolean ? "True" : "False");
    case Kind::integer: return out.add(std::to_string(v.integer));
    case Kind::big: return out.add(v.text());
    case Kind::real: return out.add(float_repr(v.real));
    case Kind::string:
      if (v.markup) out.add("Markup(");
      out.add(string_repr(v.text()), any_untrusted(*v.string));
      if (v.markup) out.add(")");
      return;
    case Kind::list: return write_list(out, *v.list, depth);
    case Kind::dict: return write_dict(out, *v.dict, depth);
    case Kind::space:
      out.add("<Namespace ");
      write_dict(out, *v.dict, depth);
      return out.add(">");
    case Kind::macro:
      if (!v.macro->name.is(Kind::string)) return out.add("<Macro anonymous>");
      return out.add("<Macro " + string_repr(v.macro->name.text()) + ">");
    case Kind::loop: return out.add("<LoopContext " + std::to_string(v.loop->index0 + 1) + "/" + std::to_string(v.loop->items->size) + ">");
    case Kind::blocks: return out.add("<TemplateReference None>");
    case Kind::function:
      if (!v.function->class_name.empty()) return out.add("<class '" + std::string(v.function->class_name) + "'>");
      return out.add("<function " + std::string(v.function->row.name) + ">");
    default: return out.add("<" + std::string(type_name(v)) + ">");
  }
}

Value to_string(Heap& heap, const Value& v) {
  if (v.is(Kind::string)) return v;
  Writer out(heap);
  write_str(out, v);
  return out.take();
}

Value get_item(Heap& heap, const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) fail_undefined(object);
  if (object.is(Kind::dict)) {
    try {
      if (const Value* found = object.dict->find(key)) return *found;
    } catch (const Error& error) {
      if (error.code() != Code::invalid_argument) throw;  // a key that cannot be hashed is in no dict
    }
    return missing(heap, object, key);
  }
  const bool integer = key.is(Kind::integer) || key.is(Kind::boolean);
  if (integer && object.is(Kind::list) && object.list->type <= Sequence::range) {
    const auto size = static_cast<std::int64_t>(object.list->size);
    std::int64_t i = as_index(key);
    if (i < 0) i += size;
    if (i >= 0 && i < size) return object.list->at(static_cast<std::size_t>(i));
  }
  if (integer && object.is(Kind::string)) {
    const std::string_view text = object.text();
    std::int64_t i = as_index(key);
    if (i < 0) i += static_cast<std::int64_t>(code_points(text));
    if (i >= 0) {
      std::size_t begin = byte_offset(text, static_cast<std::size_t>(i)), end = begin;
      if (begin < text.size()) {
        next_code_point(text, end);
        return substring(heap, object, begin, end);
      }
    }
  }
  return missing(heap, object, key);
}

Value slice(Heap& heap, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(Kind::undefined)) fail_undefined(object);
  if (object.is(Kind::dict)) fail("unhashable type: 'slice'");
  if (!object.is(Kind::string) && !(object.is(Kind::list) && object.list->type <= Sequence::range))
    fail("'" + std::string(type_name(object)) + "' object is not subscriptable");
  if (object.is(Kind::string)) {
    const std::string_view text = object.text();
    const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    const auto size = static_cast<std::int64_t>(ascii ? text.size() : code_points(text));
    Bounds b = slice_bounds(size, start, stop, step);
    if (b.step == 1) {
      if (b.start >= b.stop) return substring(heap, object, 0, 0);
      const auto first = static_cast<std::size_t>(b.start), count = static_cast<std::size_t>(b.stop - b.start);
      if (ascii) return substring(heap, object, first, first + count);
      const std::size_t begin = byte_offset(text, first);
      return substring(heap, object, begin, begin + byte_offset(text.substr(begin), count));
    }
    const List* chars = iterate(heap, object);
    Writer out(heap);
    b.step = std::clamp(b.step, -size - 1, size + 1);  // the same items, and no overflow
    for (std::int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step)
      out.add(*chars->at(static_cast<std::size_t>(i)).string);
    return out.take(object.markup);
  }
  const List& list = *object.list;
  Bounds b = slice_bounds(static_cast<std::int64_t>(list.size), start, stop, step);
  if (list.type == Sequence::range) {
    List* result = make_list(heap, 0, Sequence::range);
    result->start = list.start + b.start * list.step;
    result->stop = list.start + b.stop * list.step;
    if (__builtin_mul_overflow(list.step, b.step, &result->step)) fail("Python int too large to convert to C ssize_t");
    const std::int64_t way = b.step > 0 ? b.stop - b.start : b.start - b.stop;
    const auto by = b.step > 0 ? static_cast<std::uint64_t>(b.step) : 0 - static_cast<std::uint64_t>(b.step);
    if (way > 0) result->size = static_cast<std::size_t>(static_cast<std::uint64_t>(way - 1) / by + 1);
    return Value::of(result);
  }
  const auto size = static_cast<std::int64_t>(list.size);
  b.step = std::clamp(b.step, -size - 1, size + 1);
  List* result = make_list(heap, 0, list.type == Sequence::list ? Sequence::list : Sequence::tuple);
  for (std::int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step)
    append(heap, *result, list.at(static_cast<std::size_t>(i)));
  return Value::of(result);
}

bool is_iterable(const Value& v) {
  return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::undefined) || v.is(Kind::loop);
}

List* iterate(Heap& heap, const Value& v) {
  const Error* failure = nullptr;
  List* items = iterate(heap, v, failure);
  if (failure != nullptr) throw Error(*failure);
  return items;
}

List* iterate(Heap& heap, const Value& v, const Error*& failure) {
  switch (v.kind) {
    case Kind::list: {
      if (v.list->type != Sequence::generator) return v.list;
      failure = v.list->failure;
      List* rest = heap.make<List>();
      rest->data = v.list->data + v.list->taken;
      rest->size = rest->capacity = v.list->size - v.list->taken;
      v.list->taken = v.list->size;
      return rest;
    }
    case Kind::dict: {
      List* keys = make_list(heap, v.dict->size);
      for (std::size_t i = 0; i < v.dict->size; ++i) append(heap, *keys, v.dict->entries[i].key);
      return keys;
    }
    case Kind::string: {
      const std::string_view text = v.text();
      List* chars = make_list(heap, text.size());
      for (std::size_t i = 0; i < text.size();) {
        const std::size_t begin = i;
        next_code_point(text, i);
        Value one = substring(heap, v, begin, i);
        one.markup = false;  // as Python's iteration over Markup
        append(heap, *chars, one);
      }
      return chars;
    }
    case Kind::undefined: return make_list(heap);
    default: fail("'" + std::string(type_name(v)) + "' object is not iterable");
  }
}

std::size_t length(const Value& v) {
  switch (v.kind) {
    case Kind::undefined: return 0;
    case Kind::string: return code_points(v.text());
    case Kind::list:
      if (v.list->type != Sequence::generator) return v.list->size;
      break;
    case Kind::dict: return v.dict->size;
    default: break;
  }
  fail("object of type '" + std::string(type_name(v)) + "' has no len()");
}

}  // namespace quern::templates
