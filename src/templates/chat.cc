#include "templates/chat.h"

#include <algorithm>
#include <optional>

#include "templates/operators.h"

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

/// Calls use(holder, arguments) for each tool call of a message that has some; `holder` is the dict that holds them.
template <class Use>
void each_arguments(Dict& message, const Use& use) {
  const Value* calls = message.find("tool_calls");
  if (!calls || !calls->is(Kind::list)) return;
  for (std::size_t i = 0; i < calls->list->size; ++i) {
    const Value call = calls->list->at(i);
    if (!call.is(Kind::dict)) continue;
    const Value* function = call.dict->find("function");
    Dict& holder = function && function->is(Kind::dict) ? *function->dict : *call.dict;
    if (const Value* arguments = holder.find("arguments")) use(holder, *arguments);
  }
}

void open_arguments(Heap& heap, Dict& message) {
  each_arguments(message, [&](Dict& holder, const Value& arguments) {
    if (!arguments.is(Kind::string)) return;
    try {
      const Value object = parse_json(heap, arguments.text(), true);
      if (object.is(Kind::dict)) set(heap, holder, "arguments", object);
    } catch (const Error& error) {
      if (error.code() != Code::invalid_argument) throw;  // not JSON: the template gets the text as it is
    }
  });
}

// ---- What a template cannot take is rewritten

void close_arguments(Heap& heap, Dict& message) {
  each_arguments(message, [&](Dict& holder, const Value& arguments) {
    if (arguments.is(Kind::dict)) set(heap, holder, "arguments", make_string(heap, to_json(arguments), true));
  });
}

// The text of a message, if all of it is text.
std::optional<std::string> plain_text(const Dict& message) {
  const Value* content = message.find("content");
  if (!content || content->is(Kind::none)) return "";
  if (content->is(Kind::string)) return std::string(content->text());
  if (!content->is(Kind::list)) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < content->list->size; ++i) {
    const Value part = content->list->at(i);
    const Value* of_part = part.is(Kind::dict) ? part.dict->find("text") : nullptr;
    if (!of_part || !of_part->is(Kind::string)) return std::nullopt;
    text += of_part->text();
  }
  return text;
}

void set_text(Heap& heap, Dict& message, const std::string& text, bool in_parts) {
  Value content = make_string(heap, text, true);
  if (in_parts) {
    Dict* part = make_dict(heap, 2);
    set(heap, *part, "type", make_string(heap, "text"));
    set(heap, *part, "text", content);
    List* parts = make_list(heap, 1);
    append(heap, *parts, Value::of(part));
    content = Value::of(parts);
  }
  set(heap, message, "content", content);
}

bool has_role(const Dict& message, std::string_view role) {
  const Value* own = message.find("role");
  return own && own->is(Kind::string) && own->text() == role;
}

void adapt(Heap& heap, List& messages, const Capabilities& can) {
  const bool in_parts = can.content_parts && !can.text_content;
  for (std::size_t i = 0; i < messages.size; ++i) {
    Dict& message = *messages.at(i).dict;
    if (can.string_arguments && !can.object_arguments) close_arguments(heap, message);
    const Value* content = message.find("content");
    if (content && content->is(in_parts ? Kind::string : Kind::list) && (in_parts || !can.content_parts))
      if (const auto text = plain_text(message)) set_text(heap, message, *text, in_parts);
    const bool developer = has_role(message, "developer"), system = has_role(message, "system");
    if (developer && !can.developer_role && can.system_role) set(heap, message, "role", make_string(heap, "system"));
    if (system && !can.system_role && can.developer_role) set(heap, message, "role", make_string(heap, "developer"));
  }
  if (can.system_role || can.developer_role) return;
  for (std::size_t i = 0; i + 1 < messages.size; ++i) {
    Dict& message = *messages.at(i).dict;
    Dict& next = *messages.at(i + 1).dict;
    if ((!has_role(message, "system") && !has_role(message, "developer")) || !has_role(next, "user")) continue;
    const auto lead = plain_text(message), text = plain_text(next);
    if (!lead || !text) continue;
    set_text(heap, next, *lead + "\n\n" + *text, in_parts);
    std::copy(messages.data + i + 1, messages.data + messages.size, messages.data + i);
    --messages.size;
  }
}

// ---- Going on with the last message

constexpr std::string_view kHere = "\x01to be continued\x01";

// Marks where the text of the last message ends. The space behind the mark tells later whether the template trims.
void mark_end(Heap& heap, List& messages) {
  const auto refuse = [](const char* why) {
    throw Error(Code::invalid_argument, std::string("the last message cannot be continued: ") + why);
  };
  if (messages.size == 0) refuse("there is none");
  Dict& last = *messages.at(messages.size - 1).dict;
  if (const Value* calls = last.find("tool_calls"); calls && truth(*calls)) refuse("it calls tools");
  const Value* content = last.find("content");
  Dict* holder = &last;
  const char* name = "content";
  if (content && content->is(Kind::list) && content->list->size != 0) {
    const Value part = content->list->at(content->list->size - 1);
    if (!part.is(Kind::dict)) refuse("its last part is no text");
    holder = part.dict;
    name = "text";
    content = holder->find(name);
  }
  if (!content || !content->is(Kind::string)) return refuse("it does not end with a text");
  set(heap, *holder, name, make_string(heap, std::string(content->text()) + std::string(kHere) + " ", true));
}

void cut_at_mark(std::vector<Piece>& pieces) {
  while (!pieces.empty()) {
    Piece& last = pieces.back();
    const std::size_t found = last.untrusted ? last.text.rfind(kHere) : last.text.npos;
    if (found == last.text.npos) {
      pieces.pop_back();
      continue;
    }
    const bool trimmed = last.text.substr(found + kHere.size(), 1) != " ";
    last.text.resize(found);
    while (!pieces.empty()) {  // as transformers does: where the template trims, the end of the text is trimmed too
      std::string& text = pieces.back().text;
      if (trimmed) text.resize(strip(text, false, true).second);
      if (!text.empty()) break;
      pieces.pop_back();
    }
    return;
  }
  throw Error(Code::invalid_argument, "the last message cannot be continued: the template does not show the end of its text");
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
    if (input.open_arguments) open_arguments(heap, *message.dict);
  }
  return messages;
}

}  // namespace

std::vector<Piece> render_chat(const Template& chat, const ChatInput& input, const Budget& budget) {
  Heap heap;
  Dict* context = make_dict(heap, 16);
  for (const auto& [name, text] : input.special_tokens) set(heap, *context, name, make_string(heap, text));
  const Value messages = messages_of(heap, input);
  if (input.capabilities != nullptr) adapt(heap, *messages.list, *input.capabilities);
  if (input.continue_final) mark_end(heap, *messages.list);
  set(heap, *context, "messages", messages);
  set(heap, *context, "tools", input.tools_json.empty() ? Value::none() : parse_part(heap, input.tools_json, Kind::list, "tools"));
  set(heap, *context, "documents",
      input.documents_json.empty() ? Value::none() : parse_part(heap, input.documents_json, Kind::list, "documents"));
  set(heap, *context, "add_generation_prompt", Value::of(input.add_generation_prompt));
  if (!input.extra_json.empty()) {
    const Value extra = parse_part(heap, input.extra_json, Kind::dict, "the template's extra names");
    for (std::size_t i = 0; i < extra.dict->size; ++i) set(heap, *context, extra.dict->entries[i].key, extra.dict->entries[i].value);
  }
  std::vector<Piece> pieces = chat.render_pieces(Value::of(context), budget);
  if (input.continue_final) cut_at_mark(pieces);
  return pieces;
}

std::string text_of(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace quern::templates
