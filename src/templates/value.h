#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace quern::templates {

/// Memory of values: handed out in order, given back all at once when the heap dies. `limit` bounds the bytes ever handed out; passing it
/// is Error(resource_exhausted). One thread may allocate; any number may read what is there.
class Heap {
 public:
  explicit Heap(std::size_t limit = std::size_t{1} << 31) : limit_(limit) {}
  ~Heap();
  Heap(Heap&&) = default;
  Heap& operator=(Heap&&) = default;

  /// 8-byte aligned, not initialised.
  void* allocate(std::size_t bytes) {
    bytes = (bytes + 7) & ~std::size_t{7};
    charge(bytes);
    if (bytes > left_) return allocate_chunk(bytes);
    void* result = next_;
    next_ += bytes;
    left_ -= bytes;
    return result;
  }
  template <typename T>
  T* array(std::size_t count) {
    if (count > (std::size_t{1} << 32)) exhausted();
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  template <typename T>
  T* make() {
    return new (allocate(sizeof(T))) T{};
  }
  void require(std::size_t bytes) const {
    if (bytes > limit_ - used_) exhausted();
  }
  /// Counts bytes that are held elsewhere (text being built) against the limit.
  void charge(std::size_t bytes) {
    require(bytes);
    used_ += bytes;
  }
  std::size_t used() const { return used_; }

 private:
  [[noreturn]] void exhausted() const;
  void* allocate_chunk(std::size_t bytes);

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  bool has_first_ = false;  // the first chunk is of the usual size
  std::byte* next_ = nullptr;
  std::size_t left_ = 0, used_ = 0, limit_;
};

/// Counts work on values (bytes, items) for the render that this thread is in, if any: comparisons and searches in dicts happen where no
/// render is at hand. Errors: resource_exhausted when the render's time is over.
void count_work(std::size_t amount);

enum class Kind : std::uint8_t {
  absent,  // an argument that was not given
  undefined,
  none,
  boolean,
  integer,
  real,
  big,  // an integer past 64 bits, kept as its digits: it can be printed and compared, not computed with
  string,
  list,  // every sequence, see Sequence
  dict,
  space,  // namespace(...)
  function,
  method,
  macro,
  loop,
  cycler,
  joiner,
  blocks,  // `self`: the blocks of the template
  block,   // one of them: `integer` is its number
};

struct String;
struct List;
struct Dict;
struct Macro;
struct Loop;
struct Method;
struct Cycler;
struct Function;

/// A handle of 16 bytes to a value that a Heap owns (or that fits in the handle). Copying it copies the reference, as in Python.
struct Value {
  Kind kind = Kind::undefined;
  bool markup = false;          // a string that is already HTML-escaped (filters `safe` and `escape`)
  bool element = false;         // of undefined: `string` is the repr of a key; with no owner, the whole message
  Kind owner = Kind::absent;    // of undefined: what kind of value lacked the attribute `string`; absent = a plain name
  std::uint8_t owner_type = 0;  // and where that is a list, its Sequence; where it is a string, whether that is markup
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
    const String* string;
    List* list;
    Dict* dict;
    const Macro* macro;
    Loop* loop;
    const Method* method;
    Cycler* cycler;
    const Function* function;
  };

  static Value none() { return of(Kind::none); }
  static Value of(Kind kind) {
    Value v;
    v.kind = kind;
    return v;
  }
  static Value of(bool b) {
    Value v = of(Kind::boolean);
    v.boolean = b;
    return v;
  }
  static Value of(std::int64_t i) {
    Value v = of(Kind::integer);
    v.integer = i;
    return v;
  }
  static Value of(double d) {
    Value v = of(Kind::real);
    v.real = d;
    return v;
  }
  static Value of(const String* s, bool markup = false) {
    Value v = of(Kind::string);
    v.string = s;
    v.markup = markup;
    return v;
  }
  static Value of(List* l) {
    Value v = of(Kind::list);
    v.list = l;
    return v;
  }
  static Value of(Dict* d, Kind kind = Kind::dict) {
    Value v = of(kind);
    v.dict = d;
    return v;
  }

  bool is(Kind k) const { return kind == k; }
  bool given() const { return kind != Kind::absent; }
  bool is_number() const { return kind == Kind::boolean || kind == Kind::integer || kind == Kind::real; }
  inline std::string_view text() const;  // of a string (or the digits of a big integer)
};

/// Bytes [previous end, end) of a string come from the template (trusted) or from marked context (untrusted).
struct Span {
  std::uint32_t end;
  bool untrusted;
};

/// Valid UTF-8. Where all bytes are of one origin, span_count is 0 and `untrusted` says which.
struct String {
  const char* data;
  std::uint32_t size;
  std::uint32_t span_count;
  const Span* spans;
  bool untrusted;

  std::string_view view() const { return {data, size}; }
};

std::string_view Value::text() const { return string->view(); }

enum class Sequence : std::uint8_t { list, tuple, group, range, keys, values, items, generator };

struct List {
  Value* data = nullptr;
  std::size_t size = 0, capacity = 0;
  Sequence type = Sequence::list;
  const Heap* heap = nullptr;                  // who may change it
  std::size_t taken = 0;                       // generator: how many items are gone
  const Error* failure = nullptr;              // generator: what reading past its items raises; jinja2's are lazy, ours remember
  std::int64_t start = 0, stop = 0, step = 0;  // range: data stays null

  Value at(std::size_t i) const { return type == Sequence::range ? Value::of(start + static_cast<std::int64_t>(i) * step) : data[i]; }
};

struct Entry {
  Value key, value;
};

/// Keeps the order of insertion. Up to 8 entries are searched one by one, more through a hash index.
struct Dict {
  Entry* entries = nullptr;
  std::size_t size = 0, capacity = 0;
  std::uint32_t* index = nullptr;  // index_size slots holding entry + 1, or 0
  std::size_t index_size = 0;
  const Heap* heap = nullptr;

  const Value* find(std::string_view key) const;  // nullptr if absent
  const Value* find(const Value& key) const;
};

/// Undefined, and what using it says.
Value undefined_because(Heap& heap, std::string_view message);
/// Undefined, since `owner` has no attribute of that name (or, with `element`, no item: the name is then the repr of a key).
Value undefined_attribute(const Value& owner, const Value& name, bool element = false);

/// Makers. Text that is not UTF-8 gets U+FFFD in place of what is wrong.
Value make_string(Heap& heap, std::string_view text, bool untrusted = false);
/// The text is known to be valid UTF-8 and outlives the value: nothing is copied.
Value view_string(Heap& heap, std::string_view text, bool untrusted = false);
List* make_list(Heap& heap, std::size_t capacity = 0, Sequence type = Sequence::list);
Dict* make_dict(Heap& heap, std::size_t capacity = 0);
void append(Heap& heap, List& list, Value value);
/// Errors: invalid_argument where Python calls the key unhashable.
void set(Heap& heap, Dict& dict, Value key, Value value);
void set(Heap& heap, Dict& dict, std::string_view key, Value value);
bool erase(Heap& heap, Dict& dict, const Value& key);

/// JSON text to a value: objects keep their order, integers stay integers, a repeated key takes the last value at the first place.
/// Every string (and key) is marked untrusted on demand. Errors: invalid_argument with line and column; nesting is bounded at 256.
Value parse_json(Heap& heap, std::string_view text, bool untrusted = false);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool pretty = false;
  std::string indent;  // one level, when pretty
  std::string item_separator = ", ", key_separator = ": ";
};
class Writer;
/// As Python's json.dumps writes it. Errors: invalid_argument for what JSON cannot hold.
void write_json(Writer& out, const Value& value, const JsonStyle& style);
std::string to_json(const Value& value);

/// A deep copy with every string marked untrusted.
Value untrusted_copy(Heap& heap, const Value& value);

}  // namespace quern::templates
