#include <algorithm>
#include <cmath>
#include <cstdio>

#include "templates/arguments.h"
#include "templates/big_integer.h"
#include "templates/sort.h"

// Methods of list, tuple, dict and numbers. Only what the template made itself can be changed.
namespace quern::templates {
namespace {

using Args = const Arguments&;

std::size_t place(const List& list, const Value& index, const char* what) {
  const auto size = static_cast<std::int64_t>(list.size);
  std::int64_t i = integer(index, -1);
  if (i < 0) i += size;
  if (i < 0 || i >= size) bad_argument(std::string(what) + " index out of range");
  return static_cast<std::size_t>(i);
}

void remove_at(List& list, std::size_t i) {
  std::copy(list.data + i + 1, list.data + list.size, list.data + i);
  --list.size;
}

void insert_at(Render& r, List& list, std::size_t i, const Value& v) {
  append(r.heap(), list, v);
  std::rotate(list.data + i, list.data + list.size - 1, list.data + list.size);
}

Value list_append(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  append(r.heap(), *self.list, a[0]);
  return Value::none();
}

Value list_pop(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  if (self.list->size == 0) bad_argument("pop from empty list");
  const std::size_t i = place(*self.list, a[0], "pop");
  const Value v = self.list->data[i];
  r.work(self.list->size - i);
  remove_at(*self.list, i);
  return v;
}

Value list_insert(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  const auto size = static_cast<std::int64_t>(self.list->size);
  std::int64_t i = as_index(a[0]);
  if (i < 0) i = std::max<std::int64_t>(0, i + size);
  r.work(self.list->size);
  insert_at(r, *self.list, static_cast<std::size_t>(std::min(i, size)), a[1]);
  return Value::none();
}

Value list_extend(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  const List* more = iterate(r.heap(), a[0]);
  const std::size_t count = more->size;  // the list itself may be what is added
  for (std::size_t i = 0; i < count; ++i) append(r.heap(), *self.list, more->at(i));
  return Value::none();
}

Value list_remove(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  for (std::size_t i = 0; i < self.list->size; ++i)
    if (equal(self.list->at(i), a[0])) return remove_at(*self.list, i), Value::none();
  bad_argument("list.remove(x): x not in list");
}

Value list_reverse(Render& r, const Value& self, const Value*, Args) {
  r.check_changeable(self.list->heap);
  std::reverse(self.list->data, self.list->data + self.list->size);
  return Value::none();
}

Value list_sort(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.list->heap);
  const bool reverse = flag(a[0]);
  sort_stably(self.list->data, self.list->size, [&](const Value& x, const Value& y) {
    r.work(16);
    return reverse ? compare(y, x) < 0 : compare(x, y) < 0;
  });
  return Value::none();
}

Value list_clear(Render& r, const Value& self, const Value*, Args) {
  r.check_changeable(self.list->heap);
  self.list->size = 0;
  return Value::none();
}

Value list_copy(Render& r, const Value& self, const Value*, Args) {
  List* copy = make_list(r.heap(), self.list->size);
  for (std::size_t i = 0; i < self.list->size; ++i) append(r.heap(), *copy, self.list->at(i));
  return Value::of(copy);
}

Value list_index(Render& r, const Value& self, const Value* a, Args) {
  r.work(self.list->size);
  for (std::size_t i = 0; i < self.list->size; ++i)
    if (equal(self.list->at(i), a[0])) return of_size(i);
  bad_argument("the value is not in the " + std::string(type_name(self)));
}

Value list_count(Render& r, const Value& self, const Value* a, Args) {
  r.work(self.list->size);
  std::int64_t n = 0;
  for (std::size_t i = 0; i < self.list->size; ++i) n += equal(self.list->at(i), a[0]);
  return Value::of(n);
}

Value pair(Render& r, const Entry& entry) {
  List* items = make_list(r.heap(), 2, Sequence::tuple);
  append(r.heap(), *items, entry.key);
  append(r.heap(), *items, entry.value);
  return Value::of(items);
}

template <Sequence kType>
Value dict_view(Render& r, const Value& self, const Value*, Args) {
  List* view = make_list(r.heap(), self.dict->size, kType);
  for (std::size_t i = 0; i < self.dict->size; ++i) {
    const Entry& entry = self.dict->entries[i];
    append(r.heap(), *view, kType == Sequence::keys ? entry.key : kType == Sequence::values ? entry.value : pair(r, entry));
  }
  return Value::of(view);
}

Value dict_get(Render&, const Value& self, const Value* a, Args) {
  if (const Value* found = self.dict->find(a[0])) return *found;
  return a[1].given() ? a[1] : Value::none();
}

Value dict_pop(Render& r, const Value& self, const Value* a, Args) {
  r.check_changeable(self.dict->heap);
  const Value* found = self.dict->find(a[0]);
  if (!found && !a[1].given()) bad_argument("pop(): the key is not in the dict");
  const Value v = found ? *found : a[1];
  r.work(self.dict->size);
  if (found) erase(r.heap(), *self.dict, a[0]);
  return v;
}

Value dict_pop_item(Render& r, const Value& self, const Value*, Args) {
  r.check_changeable(self.dict->heap);
  if (self.dict->size == 0) bad_argument("popitem(): dictionary is empty");
  const Value v = pair(r, self.dict->entries[self.dict->size - 1]);
  r.work(self.dict->size);
  erase(r.heap(), *self.dict, v.list->at(0));
  return v;
}

Value dict_set_default(Render& r, const Value& self, const Value* a, Args) {
  if (const Value* found = self.dict->find(a[0])) return *found;
  r.check_changeable(self.dict->heap);
  const Value v = a[1].given() ? a[1] : Value::none();
  set(r.heap(), *self.dict, a[0], v);
  return v;
}

Value dict_update(Render& r, const Value& self, const Value*, Args all) {
  r.check_changeable(self.dict->heap);
  if (all.positional.size() > 1) bad_argument("update expected at most 1 argument");
  if (!all.positional.empty()) {
    const Value& from = all.positional[0];
    if (from.is(Kind::dict)) {
      const std::size_t count = from.dict->size;
      for (std::size_t i = 0; i < count; ++i) set(r.heap(), *self.dict, from.dict->entries[i].key, from.dict->entries[i].value);
    } else {
      const List* pairs = iterate(r.heap(), from);
      for (std::size_t i = 0; i < pairs->size; ++i) {
        const List* two = iterate(r.heap(), pairs->at(i));
        if (two->size != 2) bad_argument("dictionary update sequence element has length " + std::to_string(two->size) + "; 2 is required");
        set(r.heap(), *self.dict, two->at(0), two->at(1));
      }
    }
  }
  for (const Named& n : all.named) set(r.heap(), *self.dict, n.name, n.value);
  return Value::none();
}

Value dict_copy(Render& r, const Value& self, const Value*, Args) {
  Dict* copy = make_dict(r.heap(), self.dict->size);
  for (std::size_t i = 0; i < self.dict->size; ++i) set(r.heap(), *copy, self.dict->entries[i].key, self.dict->entries[i].value);
  return Value::of(copy);
}

Value dict_clear(Render& r, const Value& self, const Value*, Args) {
  r.check_changeable(self.dict->heap);
  self.dict->size = self.dict->index_size = 0;
  return Value::none();
}

Value dict_from_keys(Render& r, const Value&, const Value* a, Args) {
  const List* keys = iterate(r.heap(), a[0]);
  Dict* made = make_dict(r.heap());
  for (std::size_t i = 0; i < keys->size; ++i) set(r.heap(), *made, keys->at(i), a[1].given() ? a[1] : Value::none());
  return Value::of(made);
}

Value is_disjoint(Render& r, const Value& self, const Value* a, Args) {
  const List* others = iterate(r.heap(), a[0]);
  for (std::size_t i = 0; i < others->size; ++i)
    if (contains(r.heap(), self, others->at(i))) return Value::of(false);
  return Value::of(true);
}

constexpr Row kListRows[] = {
    {"append", list_append, {"/object"}},
    {"clear", list_clear},
    {"copy", list_copy},
    {"count", list_count, {"/value"}},
    {"extend", list_extend, {"/iterable"}},
    {"index", list_index, {"/value"}},
    {"insert", list_insert, {"/index", "/object"}},
    {"pop", list_pop, {"/index?"}},
    {"remove", list_remove, {"/value"}},
    {"reverse", list_reverse},
    {"sort", list_sort, {"reverse?"}},
};

constexpr Row kTupleRows[] = {
    {"count", list_count, {"/value"}},
    {"index", list_index, {"/value"}},
};

constexpr Row kViewRows[] = {
    {"isdisjoint", is_disjoint, {"/other"}},
};

constexpr Row kDictRows[] = {
    {"clear", dict_clear},
    {"copy", dict_copy},
    {"fromkeys", dict_from_keys, {"/iterable", "/value?"}},
    {"get", dict_get, {"/key", "/default?"}},
    {"items", dict_view<Sequence::items>},
    {"keys", dict_view<Sequence::keys>},
    {"pop", dict_pop, {"/key", "/default?"}},
    {"popitem", dict_pop_item},
    {"setdefault", dict_set_default, {"/key", "/default?"}},
    {"update", dict_update, {"*"}},
    {"values", dict_view<Sequence::values>},
};

Value conjugate(Render&, const Value& v, const Value*, Args) { return v.is(Kind::boolean) ? Value::of(std::int64_t{v.boolean}) : v; }

Value integer_ratio(Render& r, const Value& v, const Value*, Args) {
  BigInteger above, below(1);
  if (v.is(Kind::real)) {
    if (!std::isfinite(v.real))
      bad_argument(std::isnan(v.real) ? "cannot convert NaN to integer ratio" : "cannot convert Infinity to integer ratio");
    double whole = v.real;
    std::uint64_t shift = 0;
    for (; whole != std::trunc(whole); ++shift) whole *= 2;
    above = BigInteger::truncated(whole);
    below = BigInteger::power(BigInteger(2), shift);
  } else {
    above = BigInteger::of(v);
  }
  List* two = make_list(r.heap(), 2, Sequence::tuple);
  append(r.heap(), *two, above.value(r.heap()));
  append(r.heap(), *two, below.value(r.heap()));
  return Value::of(two);
}

Value hexadecimal(Render& r, const Value& v, const Value*, Args) {
  if (!std::isfinite(v.real)) return r.string(float_repr(v.real));
  char out[64];
  const bool zero = v.real == 0;
  std::snprintf(out, sizeof out, zero ? "%.1a" : "%.13a", v.real);
  return r.string(out);
}

constexpr Row kIntegerRows[] = {
    {"as_integer_ratio", integer_ratio},
    {"bit_count", [](Render&, const Value& v, const Value*, Args) { return of_size(BigInteger::of(v).ones()); }},
    {"bit_length", [](Render&, const Value& v, const Value*, Args) { return of_size(BigInteger::of(v).bits()); }},
    {"conjugate", conjugate},
};

constexpr Row kRealRows[] = {
    {"as_integer_ratio", integer_ratio},
    {"conjugate", conjugate},
    {"hex", hexadecimal},
    {"is_integer", [](Render&, const Value& v, const Value*, Args) { return Value::of(v.real == std::floor(v.real)); }},
};

}  // namespace

std::span<const Row> list_methods() { return kListRows; }
std::span<const Row> tuple_methods() { return kTupleRows; }
std::span<const Row> view_methods() { return kViewRows; }
std::span<const Row> dict_methods() { return kDictRows; }
std::span<const Row> integer_methods() { return kIntegerRows; }
std::span<const Row> real_methods() { return kRealRows; }

}  // namespace quern::templates
