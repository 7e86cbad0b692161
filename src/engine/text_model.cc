#include "engine/text_model.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/page_memory.h"

namespace quern::engine {
namespace {

tokenizers::Spec spec_of(const gguf::File& file) {
  const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  const auto id = [&](std::string_view name) { return file.get<std::int64_t>(key(name), -1); };
  const auto flag = [&](std::string_view name) { return file.find(key(name)) ? std::optional(file.get<bool>(key(name))) : std::nullopt; };

  tokenizers::Spec spec;
  if (file.find(key("model")) == nullptr)
    throw Error(Code::unsupported, "the file has no tokenizer ('tokenizer.ggml.model' is missing)").at(file.path());
  spec.model = file.get<std::string>(key("model"));
  spec.pre_tokenizer = file.get<std::string>(key("pre"), "");
  spec.tokens = file.array<std::string_view, PageVector<std::string_view>>(key("tokens"));
  const auto read = [&]<class T>(PageVector<T>& out, const char* name) {
    if (file.find(key(name))) out = file.array<T, PageVector<T>>(key(name));
  };
  read(spec.types, "token_type");
  read(spec.merges, "merges");
  read(spec.scores, "scores");
  spec.special = {.bos = id("bos_token_id"),
                  .eos = id("eos_token_id"),
                  .eot = id("eot_token_id"),
                  .eom = id("eom_token_id"),
                  .unk = id("unknown_token_id"),
                  .sep = id("seperator_token_id"),  // as the format spells it
                  .pad = id("padding_token_id"),
                  .mask = id("mask_token_id")};
  // The format has no word on which special tokens take white space along; these models' do.
  std::string name = file.get<std::string>("general.name", "");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool phi3 = name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
  const bool jina = spec.pre_tokenizer.starts_with("jina-v2-") || spec.pre_tokenizer == "jina-v5-nano";
  for (std::size_t i = 0; (phi3 || jina) && i < std::min(spec.tokens.size(), spec.types.size()); ++i) {
    const auto type = static_cast<tokenizers::TokenType>(spec.types[i]);
    const std::string_view text = spec.tokens[i];
    const bool special = type == tokenizers::TokenType::control || type == tokenizers::TokenType::user_defined;
    if (phi3 && special && text != "<unk>" && text != "<s>" && text != "<|endoftext|>")
      spec.strips_right.push_back(static_cast<std::int64_t>(i));
    if (jina && text == "<mask>") spec.strips_left.push_back(static_cast<std::int64_t>(i));
  }
  spec.add_bos = flag("add_bos_token");
  spec.add_eos = flag("add_eos_token");
  spec.add_space_prefix = flag("add_space_prefix");
  spec.remove_extra_whitespaces = flag("remove_extra_whitespaces").value_or(false);
  if (const auto* charsmap = file.find(key("precompiled_charsmap"));
      charsmap && charsmap->is_array() && charsmap->element_type() <= gguf::ValueType::i8)
    spec.precompiled_charsmap = {reinterpret_cast<const char*>(charsmap->bytes().data()), charsmap->bytes().size()};
  if (spec.special.bos < 0) spec.special.bos = id("cls_token_id");  // encoders call it so
  return spec;
}

/// The control token that the template puts behind an assistant's answer: it ends a turn whether or not the metadata says so.
std::optional<std::int64_t> turn_end(const templates::Template& chat, const tokenizers::Spec& spec) {
  constexpr std::string_view kAnswer = "a made-up answer";
  templates::ChatInput input;
  input.messages_json = R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "a made-up answer"}])";
  input.add_generation_prompt = false;
  const auto size = static_cast<std::int64_t>(spec.tokens.size());
  for (const auto& [name, id] : {std::pair("bos_token", spec.special.bos), std::pair("eos_token", spec.special.eos)}) {
    if (id >= 0 && id < size) input.special_tokens.emplace_back(name, spec.tokens[static_cast<std::size_t>(id)]);
  }
  std::string text;
  try {
    text = templates::text_of(templates::render_chat(chat, input));
  } catch (const Error&) {
    return std::nullopt;  // a template that wants other messages
  }
  const std::size_t answer = text.rfind(kAnswer);
  if (answer == text.npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(answer + kAnswer.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
  std::optional<std::int64_t> found;
  std::size_t length = 0;
  for (std::size_t i = 0; i < std::min(spec.types.size(), spec.tokens.size()); ++i) {
    if (spec.types[i] != static_cast<std::int32_t>(tokenizers::TokenType::control)) continue;
    if (spec.tokens[i].size() <= length || !rest.starts_with(spec.tokens[i])) continue;
    length = spec.tokens[i].size();
    found = static_cast<std::int64_t>(i);
  }
  return found;
}

/// The begin token is for the front of every prompt; an end token, which some files ask for too, would end a prompt that is to be
/// continued.
void add_begin(const tokenizers::Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  if (!tokenizer.adds_bos()) return;
  const auto begin = static_cast<std::int32_t>(tokenizer.special().bos);
  if (ids.empty() || ids.front() != begin) ids.insert(ids.begin(), begin);
}

}  // namespace

TextModel TextModel::from_gguf(const gguf::File& file) {
  TextModel model;
  const auto source = file.get<std::string>("tokenizer.chat_template", "");
  if (!source.empty()) model.use_template(templates::Template(source));
  try {
    tokenizers::Spec spec = spec_of(file);
    if (model.chat_template) {
      if (const auto end = turn_end(*model.chat_template, spec)) spec.end_ids.push_back(*end);
    }
    model.tokenizer = tokenizers::make_tokenizer(spec);
  } catch (Error& error) {
    throw error.at(file.path());
  }
  return model;
}

void TextModel::use_template(templates::Template chat) {
  chat_template = std::make_shared<const templates::Template>(std::move(chat));
  capabilities = templates::probe(*chat_template);
}

std::vector<templates::Piece> TextModel::render_chat(const templates::ChatInput& conversation) const {
  if (!chat_template) throw Error(Code::unsupported, "the model has no chat template").hint("give it a plain text, or a chat template");
  templates::ChatInput input = conversation;
  const tokenizers::SpecialIds special = tokenizer ? tokenizer->special() : tokenizers::SpecialIds();
  const std::pair<const char*, std::int64_t> names[] = {{"bos_token", special.bos}, {"eos_token", special.eos},
                                                        {"unk_token", special.unk}, {"sep_token", special.sep},
                                                        {"pad_token", special.pad}, {"mask_token", special.mask}};
  // Those of the caller come last and win.
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, id] : names)
    if (id >= 0) texts.emplace_back(name, tokenizer->token_text(static_cast<std::int32_t>(id)));
  texts.insert(texts.end(), input.special_tokens.begin(), input.special_tokens.end());
  input.special_tokens = std::move(texts);

  if (input.capabilities == nullptr) input.capabilities = &capabilities;
  return templates::render_chat(*chat_template, input);
}

std::vector<std::int32_t> TextModel::encode_chat(const templates::ChatInput& conversation) const {
  const std::vector<templates::Piece> rendered = render_chat(conversation);
  std::vector<tokenizers::Piece> pieces;
  pieces.reserve(rendered.size());
  for (const templates::Piece& piece : rendered) pieces.push_back({piece.text, !piece.untrusted});
  std::vector<std::int32_t> ids = tokenizer->encode(pieces);
  add_begin(*tokenizer, ids);
  return ids;
}

std::vector<std::int32_t> TextModel::encode_text(std::string_view text) const {
  std::vector<std::int32_t> ids = tokenizer->encode(text);
  add_begin(*tokenizer, ids);
  return ids;
}

std::vector<std::int32_t> TextModel::encode_whole(std::string_view text) const { return tokenizer->encode(text, {.add_special = true}); }

}  // namespace quern::engine
