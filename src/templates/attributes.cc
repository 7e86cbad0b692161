#include <algorithm>
#include <iterator>

#include "templates/render.h"

// What a dot, a subscript and the filters' attribute= find: methods, fields, items.
namespace quern::templates {
namespace {

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

Value bound(Heap& heap, const Value& object, const Row* row) {
  Method* method = heap.make<Method>();
  *method = {object, row};
  Value v = Value::of(Kind::method);
  v.method = method;
  return v;
}

// What every Python object has, and the sandbox keeps from templates.
bool is_private(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__",  "__delattr__", "__dir__",  "__doc__",    "__eq__",        "__format__",  "__ge__",          "__getattribute__",
      "__gt__",     "__hash__",    "__init__", "__le__",     "__lt__",        "__ne__",      "__new__",         "__init_subclass__",
      "__reduce__", "__repr__",    "__str__",  "__sizeof__", "__reduce_ex__", "__setattr__", "__subclasshook__"};
  return name.starts_with("__") && std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value cycle_next(Render&, const Value& self, const Value*, const Arguments&) {
  const Value v = self.cycler->items->at(self.cycler->at);
  self.cycler->at = (self.cycler->at + 1) % self.cycler->items->size;
  return v;
}

Value cycle_reset(Render&, const Value& self, const Value*, const Arguments&) {
  self.cycler->at = 0;
  return Value::none();
}

constexpr Row kCyclerRows[] = {{"next", cycle_next}, {"reset", cycle_reset}};

Value cycler_field(Heap& heap, const Value& object, std::string_view name) {
  Cycler& cycler = *object.cycler;
  for (const Row& row : kCyclerRows)
    if (row.name == name) return bound(heap, object, &row);
  if (name == "current") return cycler.items->at(cycler.at);
  if (name == "pos") return Value::of(static_cast<std::int64_t>(cycler.at));
  if (name != "items") return {};
  List* items = make_list(heap, cycler.items->size, Sequence::tuple);
  for (std::size_t i = 0; i < cycler.items->size; ++i) append(heap, *items, cycler.items->at(i));
  return Value::of(items);
}

Value number_field(const Value& object, std::string_view name) {
  const Value self = object.is(Kind::boolean) ? Value::of(std::int64_t{object.boolean}) : object;
  if (name == "real") return self;
  if (name == "imag") return object.is(Kind::real) ? Value::of(0.0) : Value::of(std::int64_t{0});
  if (object.is(Kind::real)) return {};
  if (name == "numerator") return self;
  return name == "denominator" ? Value::of(std::int64_t{1}) : Value();
}

Value list_field(const List& list, std::string_view name) {
  if (list.type == Sequence::range) {
    if (name == "start") return Value::of(list.start);
    if (name == "stop") return Value::of(list.stop);
    if (name == "step") return Value::of(list.step);
  } else if (list.type == Sequence::group) {
    if (name == "grouper") return list.at(0);
    if (name == "list") return list.at(1);
  }
  return {};
}

}  // namespace

Value Render::attribute(const Value& object, NameId name) {
  const NameInfo& info = program_.names[static_cast<std::size_t>(name)];
  if (object.is(Kind::loop)) return loop_attribute(object, name);
  if (const Row* row = select_method(info.methods, object)) return bound(heap_, object, row);
  return field(object, info.text);
}

Value Render::attribute(const Value& object, std::string_view name) {
  if (const Row* row = find_method(name, object)) return bound(heap_, object, row);
  return field(object, string(name));
}

// What is found under a name that is no method.
Value Render::field(const Value& object, const Value& name) {
  const std::string_view text = name.text();
  if (is_private(text))
    return undefined_because(
        heap_, "access to attribute '" + std::string(text) + "' of '" + std::string(type_name(object)) + "' object is unsafe.");
  Value found;
  switch (object.kind) {
    case Kind::undefined: fail_undefined(object);
    case Kind::dict:
    case Kind::space:
      if (const Value* value = object.dict->find(text); value && (object.is(Kind::dict) || !text.starts_with('_'))) return *value;
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::big:
    case Kind::real: found = number_field(object, text); break;
    case Kind::list: found = list_field(*object.list, text); break;
    case Kind::macro: found = macro_field(*object.macro, text); break;
    case Kind::cycler: found = cycler_field(heap_, object, text); break;
    case Kind::joiner:
      if (text == "sep") found = object.cycler->separator;
      if (text == "used") found = Value::of(object.cycler->used);
      break;
    case Kind::loop:
      for (std::size_t i = 0; i < kKnownNames; ++i)  // loop['index'] and the like
        if (program_.names[i].text.text() == text) return loop_attribute(object, static_cast<NameId>(i));
      break;
    case Kind::blocks:
      for (std::size_t i = 0; i < program_.blocks.size(); ++i) {
        if (program_.names[static_cast<std::size_t>(program_.blocks[i].name)].text.text() != text) continue;
        found = Value::of(Kind::block);
        found.integer = static_cast<std::int64_t>(i);
      }
      break;
    case Kind::block: {
      const Value& own = program_.names[static_cast<std::size_t>(program_.blocks[static_cast<std::size_t>(object.integer)].name)].text;
      if (text == "name") found = own;
      if (text == "super") return undefined_because(heap_, "there is no parent block called " + string_repr(own.text()) + ".");
      break;
    }
    default: break;
  }
  return found.is(Kind::undefined) ? undefined_attribute(object, name) : found;
}

Value Render::macro_field(const Macro& macro, std::string_view name) {
  const MacroNode& n = *macro.node;
  if (name == "name") return macro.name;
  if (name == "catch_kwargs") return Value::of(n.uses_kwargs);
  if (name == "catch_varargs") return Value::of(n.uses_varargs);
  const bool explicit_caller = std::find(n.parameters.begin(), n.parameters.end(), kCaller) != n.parameters.end();
  if (name == "caller") return Value::of(n.uses_caller);
  if (name == "explicit_caller") return Value::of(explicit_caller);
  if (name != "arguments") return {};
  List* names = make_list(heap_, n.parameters.size(), Sequence::tuple);
  for (const NameId id : n.parameters) append(heap_, *names, program_.names[static_cast<std::size_t>(id)].text);
  return Value::of(names);
}

Value Render::item(const Value& object, const Value& key) {
  if (object.is(Kind::dict) && key.is(Kind::string))
    if (const Value* found = object.dict->find(key.text())) return *found;
  if (object.is(Kind::string) && object.string->size > 64) work(object.string->size);
  const Value found = get_item(heap_, object, key);
  if (!found.is(Kind::undefined) || !key.is(Kind::string)) return found;
  return attribute(object, key.text());
}

Value Render::path(const Value& object, const Value& path, const Value& otherwise) {
  const auto step_into = [&](const Value& from, const Value& key) {
    const Value found = item(from, key);
    return found.is(Kind::undefined) && !otherwise.is(Kind::undefined) ? otherwise : found;
  };
  if (!path.is(Kind::string)) return step_into(object, path);
  Value v = object;
  std::string_view rest = path.text();
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    more = dot != rest.npos;
    if (more) rest.remove_prefix(dot + 1);
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    v = step_into(v, number ? Value::of(static_cast<std::int64_t>(std::stoll(std::string(part)))) : string(part));
  }
  return v;
}

Value Render::loop_attribute(const Value& object, NameId name) {
  Loop& loop = *object.loop;
  const auto integer = [](std::size_t i) { return Value::of(static_cast<std::int64_t>(i)); };
  const auto size = [&] {
    while (pull(loop)) {
    }
    return loop.items->size;
  };
  const auto missing = [&](const char* what) { return undefined_because(heap_, what); };
  switch (name) {
    case kIndex: return integer(loop.index0 + 1);
    case kIndex0: return integer(loop.index0);
    case kFirst: return Value::of(loop.index0 == 0);
    case kLast: return Value::of(loop.index0 + 1 >= loop.items->size && !pull(loop));
    case kLength: return integer(size());
    case kRevindex: return integer(size() - loop.index0);
    case kRevindex0: return integer(size() - loop.index0 - 1);
    case kDepth: return Value::of(loop.depth0 + 1);
    case kDepth0: return Value::of(loop.depth0);
    case kPrevitem: return loop.index0 == 0 ? missing("there is no previous item") : loop.items->at(loop.index0 - 1);
    case kNextitem:
      if (loop.index0 + 1 < loop.items->size || pull(loop)) return loop.items->at(loop.index0 + 1);
      return missing("there is no next item");
    case kCycle:
    case kChanged: {
      static constexpr Row kCycleRow{"cycle",
                                     [](Render&, const Value& self, const Value*, const Arguments& all) {
                                       if (all.positional.empty()) fail("no items for cycling given");
                                       return all.positional[self.loop->index0 % all.positional.size()];
                                     },
                                     {"*"}};
      static constexpr Row kChangedRow{"changed",
                                       [](Render& r, const Value& self, const Value*, const Arguments& all) {
                                         List* now = make_list(r.heap(), all.positional.size(), Sequence::tuple);
                                         for (const Value& v : all.positional) append(r.heap(), *now, v);
                                         List*& last = self.loop->changed;
                                         if (last && equal(Value::of(last), Value::of(now))) return Value::of(false);
                                         last = now;
                                         return Value::of(true);
                                       },
                                       {"*"}};
      return bound(heap_, object, name == kCycle ? &kCycleRow : &kChangedRow);
    }
    default: return undefined_attribute(object, program_.names[static_cast<std::size_t>(name)].text);
  }
}

}  // namespace quern::templates
