#include <utility>

#include "templates/render.h"

// What a dot, a subscript and the filters' attribute= find: methods, fields, items.
namespace quern::templates {
namespace {

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

}  // namespace

Value Render::undefined(const Value& owner, const Value& name) const {
  Value v;
  v.owner = owner.kind;
  v.string = name.string;
  return v;
}

// What Python numbers and ranges hold beside methods.
Value Render::plain_attribute(const Value& object, std::string_view name) const {
  const auto integer = [](std::int64_t i) { return Value::of(i); };
  if (object.is_number() || object.is(Kind::big)) {
    const Value self = object.is(Kind::boolean) ? integer(object.boolean) : object;
    if (name == "real") return self;
    if (name == "imag") return object.is(Kind::real) ? Value::of(0.0) : integer(0);
    if (object.is(Kind::real)) return {};
    if (name == "numerator") return self;
    if (name == "denominator") return integer(1);
  } else if (object.is(Kind::list) && object.list->type == Sequence::range) {
    if (name == "start") return integer(object.list->start);
    if (name == "stop") return integer(object.list->stop);
    if (name == "step") return integer(object.list->step);
  }
  return {};
}

Value Render::attribute(const Value& object, NameId name) {
  const NameInfo& info = program_.names[static_cast<std::size_t>(name)];
  switch (object.kind) {
    case Kind::undefined: fail_undefined(object);
    case Kind::space: {
      const Value* found = object.dict->find(info.text.text());
      return found && !info.text.text().starts_with('_') ? *found : undefined(object, info.text);
    }
    case Kind::loop: return loop_attribute(object, name);
    default: break;
  }
  if (const Row* row = select_method(info.methods, object)) {
    Method* method = heap_.make<Method>();
    *method = {object, row};
    Value v = Value::of(Kind::method);
    v.method = method;
    return v;
  }
  switch (object.kind) {
    case Kind::dict:
      if (const Value* found = object.dict->find(info.text.text())) return *found;
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::big:
    case Kind::real:
      if (const Value found = plain_attribute(object, info.text.text()); !found.is(Kind::undefined)) return found;
      break;
    case Kind::list:
      if (object.list->type == Sequence::range)
        if (const Value found = plain_attribute(object, info.text.text()); !found.is(Kind::undefined)) return found;
      if (object.list->type == Sequence::group && name == kGrouper) return object.list->at(0);
      if (object.list->type == Sequence::group && name == kList) return object.list->at(1);
      break;
    case Kind::macro:
      if (name == kName) return object.macro->name;
      break;
    case Kind::cycler:
      if (name == kCurrent) return object.cycler->items->at(object.cycler->at);
      if (name != kNext && name != kReset) break;
      [[fallthrough]];
    default: {
      if (!object.is(Kind::cycler)) break;
      static constexpr Row kNextRow{"next", [](Render&, const Value& self, const Value*, const Arguments&) {
                                      const Value v = self.cycler->items->at(self.cycler->at);
                                      self.cycler->at = (self.cycler->at + 1) % self.cycler->items->size;
                                      return v;
                                    }};
      static constexpr Row kResetRow{"reset", [](Render&, const Value& self, const Value*, const Arguments&) {
                                       self.cycler->at = 0;
                                       return Value::none();
                                     }};
      Method* method = heap_.make<Method>();
      *method = {object, name == kNext ? &kNextRow : &kResetRow};
      Value v = Value::of(Kind::method);
      v.method = method;
      return v;
    }
  }
  return undefined(object, info.text);
}

Value Render::attribute(const Value& object, std::string_view name) {
  if (const Row* row = find_method(name, object)) {
    Method* method = heap_.make<Method>();
    *method = {object, row};
    Value v = Value::of(Kind::method);
    v.method = method;
    return v;
  }
  if (object.is(Kind::undefined)) fail_undefined(object);
  if (object.is(Kind::space) || object.is(Kind::dict))
    if (const Value* found = object.dict->find(name)) return *found;
  if (const Value found = plain_attribute(object, name); !found.is(Kind::undefined)) return found;
  if (object.is(Kind::list) && object.list->type == Sequence::group) {
    if (name == "grouper") return object.list->at(0);
    if (name == "list") return object.list->at(1);
  }
  return undefined(object, string(name));
}

Value Render::item(const Value& object, const Value& key) {
  if (object.is(Kind::dict) && key.is(Kind::string))
    if (const Value* found = object.dict->find(key.text())) return *found;
  if (object.is(Kind::string) && object.string->size > 64) work(object.string->size);
  const Value found = get_item(heap_, object, key);
  if (!found.is(Kind::undefined) || !key.is(Kind::string)) return found;
  for (std::size_t i = 0; i < kKnownNames; ++i)  // loop['index'] and the like
    if (object.is(Kind::loop) && program_.names[i].text.text() == key.text()) return loop_attribute(object, static_cast<NameId>(i));
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
      Method* method = heap_.make<Method>();
      *method = {object, name == kCycle ? &kCycleRow : &kChangedRow};
      Value v = Value::of(Kind::method);
      v.method = method;
      return v;
    }
    default: return undefined(object, program_.names[static_cast<std::size_t>(name)].text);
  }
}

}  // namespace quern::templates
