#include "templates/chat.h"

#include <algorithm>

namespace quern::templates {
namespace {

constexpr std::string_view kRoles[] = {"system",      "developer", "user",      "assistant", "tool",        "function",      "ipython",
                                       "observation", "model",     "documents", "document",  "environment", "tool_response", "tool_call"};
constexpr std::string_view kReasoning[] = {"reasoning_content", "reasoning", "thinking"};

Value parse_part(Heap& heap, std::string_view json, Kind kind, const char* what) {
  Value v;
  try {
    v = parse_json(heap, json, true);
  } catch (Error& error) {
    error.in(what);
    throw;
  }
  if (!v.is(kind)) throw Error(Code::invalid_argument, std::string(what) + " must be a JSON " + (kind == Kind::list ? "array" : "object"));
  return v;
}

void trust_role(Heap& heap, Dict& message) {
  const Value* role = message.find("role");
  if (!role || !role->is(Kind::string)) return;
  if (std::find(std::begin(kRoles), std::end(kRoles), role->text()) != std::end(kRoles))
    set(heap, message, "role", view_string(heap, role->text()));
}

void offer_reasoning(Heap& heap, Dict& message) {
  const Value* given = nullptr;
  for (const std::string_view name : kReasoning)
    if (const Value* v = message.find(name); v && !v->is(Kind::none)) {
      given = v;
      break;
    }
  if (!given) return;
  const Value reasoning = *given;  // the entries may move
  for (const std::string_view name : kReasoning) set(heap, message, name, reasoning);
}

void open_arguments(Heap& heap, Dict& message) {
  const Value* calls = message.find("tool_calls");
  if (!calls || !calls->is(Kind::list)) return;
  for (std::size_t i = 0; i < calls->list->size; ++i) {
    const Value call = calls->list->at(i);
    if (!call.is(Kind::dict)) continue;
    const Value* function = call.dict->find("function");
    Dict& holder = function && function->is(Kind::dict) ? *function->dict : *call.dict;
    const Value* arguments = holder.find("arguments");
    if (!arguments || !arguments->is(Kind::string)) continue;
    try {
      const Value object = parse_json(heap, arguments->text(), true);
      if (object.is(Kind::dict)) set(heap, holder, "arguments", object);
    } catch (const Error& error) {
      if (error.code() != Code::invalid_argument) throw;  // not JSON: the template gets the text as it is
    }
  }
}

Value messages_of(Heap& heap, const ChatInput& input) {
  if (input.messages_json.empty()) {
    List* list = make_list(heap, input.messages.size());
    for (const Message& m : input.messages) {
      Dict* message = make_dict(heap, 2);
      set(heap, *message, "role", make_string(heap, m.role, true));
      set(heap, *message, "content", make_string(heap, m.content, true));
      trust_role(heap, *message);
      append(heap, *list, Value::of(message));
    }
    return Value::of(list);
  }
  const Value messages = parse_part(heap, input.messages_json, Kind::list, "messages");
  for (std::size_t i = 0; i < messages.list->size; ++i) {
    const Value message = messages.list->at(i);
    if (!message.is(Kind::dict)) throw Error(Code::invalid_argument, "a message must be a JSON object").in("messages/" + std::to_string(i));
    trust_role(heap, *message.dict);
    offer_reasoning(heap, *message.dict);
    open_arguments(heap, *message.dict);
  }
  return messages;
}

}  // namespace

std::vector<Piece> render_chat(const Template& chat, const ChatInput& input, const Budget& budget) {
  Heap heap;
  Dict* context = make_dict(heap, 16);
  for (const auto& [name, text] : input.special_tokens) set(heap, *context, name, make_string(heap, text));
  set(heap, *context, "messages", messages_of(heap, input));
  set(heap, *context, "tools", input.tools_json.empty() ? Value::none() : parse_part(heap, input.tools_json, Kind::list, "tools"));
  set(heap, *context, "documents",
      input.documents_json.empty() ? Value::none() : parse_part(heap, input.documents_json, Kind::list, "documents"));
  set(heap, *context, "add_generation_prompt", Value::of(input.add_generation_prompt));
  if (!input.extra_json.empty()) {
    const Value extra = parse_part(heap, input.extra_json, Kind::dict, "the template's extra names");
    for (std::size_t i = 0; i < extra.dict->size; ++i) set(heap, *context, extra.dict->entries[i].key, extra.dict->entries[i].value);
  }
  return chat.render_pieces(Value::of(context), budget);
}

std::string text_of(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace quern::templates
