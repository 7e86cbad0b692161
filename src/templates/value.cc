#include "templates/value.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <random>

#include "templates/big_integer.h"
#include "templates/operators.h"
#include "templates/text.h"

namespace quern::templates {
namespace {

constexpr std::size_t kChunk = 16 << 10;
constexpr std::size_t kLinearEntries = 8;  // up to here a scan is as fast as hashing the key
constexpr int kMaxDepth = 256;

bool same_text(const Value& key, std::string_view text) {
  return key.is(Kind::string) && key.string->size == text.size() && same_bytes(key.string->data, text.data(), text.size());
}

void insert_into_index(Dict& dict, std::size_t entry) {
  std::size_t slot = hash(dict.entries[entry].key) & (dict.index_size - 1);
  while (dict.index[slot] != 0) slot = (slot + 1) & (dict.index_size - 1);
  dict.index[slot] = static_cast<std::uint32_t>(entry + 1);
}

void rebuild_index(Heap& heap, Dict& dict) {
  if (dict.size <= kLinearEntries) {
    dict.index = nullptr;
    dict.index_size = 0;
    return;
  }
  std::size_t wanted = 32;
  while (wanted < dict.capacity * 2) wanted *= 2;
  if (wanted != dict.index_size) dict.index = heap.array<std::uint32_t>(wanted);
  dict.index_size = wanted;
  std::memset(dict.index, 0, wanted * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < dict.size; ++i) insert_into_index(dict, i);
}

thread_local std::unique_ptr<std::byte[]> spare_chunk;  // of kChunk bytes: the first of the last heap

std::size_t mix(std::size_t h) { return h ^ (h >> 29); }

// SipHash-1-3 (Aumasson and Bernstein, 2012) under a key drawn once a process: whoever writes the keys of a JSON object must not be able to
// give them all one hash, and make each search a walk.
class Sip {
 public:
  static std::size_t hash(std::string_view text) {
    static const Key key;
    Sip s(key);
    std::size_t at = 0;
    for (; at + 8 <= text.size(); at += 8) s.add(word(text.data() + at, 8));
    s.add(word(text.data() + at, text.size() - at) | std::uint64_t{text.size()} << 56);
    s.c_ ^= 0xff;
    for (int i = 0; i < 3; ++i) s.round();
    return s.a_ ^ s.b_ ^ s.c_ ^ s.d_;
  }

 private:
  struct Key {
    Key() {
      std::random_device random;
      for (std::uint64_t* half : {&low, &high}) *half = std::uint64_t{random()} << 32 | random();
    }
    std::uint64_t low, high;
  };

  explicit Sip(const Key& key)
      : a_(key.low ^ 0x736f6d6570736575),
        b_(key.high ^ 0x646f72616e646f6d),
        c_(key.low ^ 0x6c7967656e657261),
        d_(key.high ^ 0x7465646279746573) {}
  static std::uint64_t word(const char* bytes, std::size_t size) {
    std::uint64_t w = 0;
    std::memcpy(&w, bytes, size);
    return w;
  }
  void round() {
    a_ += b_, b_ = std::rotl(b_, 13) ^ a_, a_ = std::rotl(a_, 32);
    c_ += d_, d_ = std::rotl(d_, 16) ^ c_;
    a_ += d_, d_ = std::rotl(d_, 21) ^ a_;
    c_ += b_, b_ = std::rotl(b_, 17) ^ c_, c_ = std::rotl(c_, 32);
  }
  void add(std::uint64_t w) {
    d_ ^= w;
    round();
    a_ ^= w;
  }

  std::uint64_t a_, b_, c_, d_;
};

}  // namespace

Heap::~Heap() {
  if (has_first_ && !chunks_.empty()) spare_chunk = std::move(chunks_[0]);
}

void* Heap::allocate_chunk(std::size_t bytes) {
  if (bytes > kChunk / 4) {  // large things get their own memory and leave the current chunk as it is
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return chunks_.back().get();
  }
  const std::size_t size = std::min(kChunk << std::min<std::size_t>(chunks_.size(), 6), kChunk << 6);
  has_first_ = has_first_ || chunks_.empty();
  chunks_.push_back(chunks_.empty() && spare_chunk ? std::move(spare_chunk) : std::make_unique_for_overwrite<std::byte[]>(size));
  next_ = chunks_.back().get();
  left_ = size;
  void* result = next_;
  next_ += bytes;
  left_ -= bytes;
  return result;
}

void Heap::exhausted() const {
  throw Error(Code::resource_exhausted, "the template's values take more than " + std::to_string(limit_) + " bytes");
}

const Value* Dict::find(std::string_view key) const {
  if (index_size == 0) {
    for (std::size_t i = 0; i < size; ++i)
      if (same_text(entries[i].key, key)) return &entries[i].value;
    return nullptr;
  }
  std::size_t slot = Sip::hash(key) & (index_size - 1);
  for (; index[slot] != 0; slot = (slot + 1) & (index_size - 1))
    if (same_text(entries[index[slot] - 1].key, key)) return &entries[index[slot] - 1].value;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::string)) return find(key.text());
  const std::size_t h = hash(key);
  if (index_size == 0) {
    for (std::size_t i = 0; i < size; ++i)
      if (equal(entries[i].key, key)) return &entries[i].value;
    return nullptr;
  }
  for (std::size_t slot = h & (index_size - 1); index[slot] != 0; slot = (slot + 1) & (index_size - 1))
    if (equal(entries[index[slot] - 1].key, key)) return &entries[index[slot] - 1].value;
  return nullptr;
}

std::size_t hash(const Value& v, int depth) {
  count_work(1);
  switch (v.kind) {
    case Kind::string: return Sip::hash(v.text());
    case Kind::big: return mix(std::hash<double>{}(BigInteger::of(v).real()));
    case Kind::boolean: return mix(std::hash<double>{}(v.boolean));
    case Kind::integer: return mix(std::hash<double>{}(static_cast<double>(v.integer)));
    case Kind::real: return mix(std::hash<double>{}(v.real));
    case Kind::list: {
      if (v.list->type == Sequence::generator || v.list->type == Sequence::values) return 7;  // any two are different
      if (v.list->type == Sequence::range) return mix(v.list->size * 1000003 ^ hash(v.list->size != 0 ? v.list->at(0) : Value::none()));
      if (v.list->type != Sequence::tuple && v.list->type != Sequence::group) break;
      if (depth > kMaxDepth) throw Error(Code::resource_exhausted, "a value is nested too deeply");
      std::size_t h = 17;
      for (std::size_t i = 0; i < v.list->size; ++i) h = mix(h * 1000003 ^ hash(v.list->at(i), depth + 1));
      return h;
    }
    case Kind::dict: break;
    case Kind::none: return 3;
    default: return 5;
  }
  throw Error(Code::invalid_argument, "unhashable type: '" + std::string(type_name(v)) + "'");
}

Value undefined_because(Heap& heap, std::string_view message) {
  Value v;
  v.element = true;
  v.string = make_string(heap, message).string;
  return v;
}

Value undefined_attribute(const Value& owner, const Value& name, bool element) {
  Value v;
  v.owner = owner.kind;
  if (owner.is(Kind::list)) v.owner_type = static_cast<std::uint8_t>(owner.list->type);
  if (owner.is(Kind::string)) v.owner_type = owner.markup;
  v.element = element;
  v.string = name.string;
  return v;
}

Value view_string(Heap& heap, std::string_view text, bool untrusted) {
  if (text.size() > (std::size_t{1} << 30)) throw Error(Code::resource_exhausted, "a string is longer than 1 GiB");
  String* s = heap.make<String>();
  *s = {text.data(), static_cast<std::uint32_t>(text.size()), 0, nullptr, untrusted};
  return Value::of(s);
}

Value make_string(Heap& heap, std::string_view text, bool untrusted) {
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = to_valid_utf8(text);
  char* bytes = heap.array<char>(text.size());
  std::copy(text.begin(), text.end(), bytes);
  return view_string(heap, {bytes, text.size()}, untrusted);
}

List* make_list(Heap& heap, std::size_t capacity, Sequence type) {
  List* list = heap.make<List>();
  list->type = type;
  list->heap = &heap;
  list->capacity = capacity;
  if (capacity != 0) list->data = heap.array<Value>(capacity);
  return list;
}

Dict* make_dict(Heap& heap, std::size_t capacity) {
  Dict* dict = heap.make<Dict>();
  dict->heap = &heap;
  dict->capacity = capacity;
  if (capacity != 0) dict->entries = heap.array<Entry>(capacity);
  return dict;
}

void append(Heap& heap, List& list, Value value) {
  if (list.size == list.capacity) {
    const std::size_t capacity = std::max<std::size_t>(4, list.capacity * 2);
    Value* data = heap.array<Value>(capacity);
    std::copy(list.data, list.data + list.size, data);
    list.data = data;
    list.capacity = capacity;
  }
  list.data[list.size++] = value;
}

void set(Heap& heap, Dict& dict, Value key, Value value) {
  if (const Value* old = dict.find(key)) {
    *const_cast<Value*>(old) = value;
    return;
  }
  if (dict.size == dict.capacity) {
    const std::size_t capacity = std::max<std::size_t>(4, dict.capacity * 2);
    Entry* entries = heap.array<Entry>(capacity);
    std::copy(dict.entries, dict.entries + dict.size, entries);
    dict.entries = entries;
    dict.capacity = capacity;
    dict.entries[dict.size++] = {key, value};
    rebuild_index(heap, dict);
    return;
  }
  dict.entries[dict.size++] = {key, value};
  if (dict.index_size == 0)
    rebuild_index(heap, dict);
  else
    insert_into_index(dict, dict.size - 1);
}

void set(Heap& heap, Dict& dict, std::string_view key, Value value) { set(heap, dict, make_string(heap, key), value); }

bool erase(Heap& heap, Dict& dict, const Value& key) {
  const Value* found = dict.find(key);
  if (!found) return false;
  for (std::size_t i = 0; i < dict.size; ++i) {
    if (&dict.entries[i].value != found) continue;
    std::copy(dict.entries + i + 1, dict.entries + dict.size, dict.entries + i);
    --dict.size;
    break;
  }
  rebuild_index(heap, dict);
  return true;
}

namespace {
Value untrusted_copy_at(Heap& heap, const Value& v, int depth) {
  if (depth > kMaxDepth) throw Error(Code::invalid_argument, "a value is nested too deeply");
  switch (v.kind) {
    case Kind::string: return view_string(heap, v.text(), true);
    case Kind::list: {
      List* copy = make_list(heap, v.list->size, v.list->type == Sequence::tuple ? Sequence::tuple : Sequence::list);
      for (std::size_t i = 0; i < v.list->size; ++i) append(heap, *copy, untrusted_copy_at(heap, v.list->at(i), depth + 1));
      return Value::of(copy);
    }
    case Kind::dict: {
      Dict* copy = make_dict(heap, v.dict->size);
      for (std::size_t i = 0; i < v.dict->size; ++i)
        set(heap, *copy, untrusted_copy_at(heap, v.dict->entries[i].key, depth + 1),
            untrusted_copy_at(heap, v.dict->entries[i].value, depth + 1));
      return Value::of(copy);
    }
    default: return v;
  }
}
}  // namespace

Value untrusted_copy(Heap& heap, const Value& value) { return untrusted_copy_at(heap, value, 0); }

}  // namespace quern::templates
