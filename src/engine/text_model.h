#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/file.h"
#include "templates/chat.h"
#include "tokenizers/tokenizer.h"

namespace quern::engine {

/// The words side of a model file: its tokenizer, and its chat template if it has one.
struct TextModel {
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;    // never null but where only a template was read
  std::shared_ptr<const templates::Template> chat_template;  // null when the file has none
  templates::Capabilities capabilities;                      // of the template

  /// Errors: data_corrupt, unsupported (a tokenizer we do not have), invalid_argument (a template that does not parse: with line and
  /// column).
  static TextModel from_gguf(const gguf::File& file);

  /// Another template instead of the file's own.
  void use_template(templates::Template chat);

  /// The prompt of a conversation as text, with the model's special tokens, and rewritten where the template could not take it (see
  /// ChatInput::capabilities). Errors: unsupported (no chat template), the template's own.
  std::vector<templates::Piece> render_chat(const templates::ChatInput& conversation) const;
  /// The prompt of a conversation as ids: special tokens are parsed only where the template wrote them, never in what a user wrote; a begin
  /// token is added once, unless the template already wrote one. Errors: unsupported (no chat template), the template's own.
  std::vector<std::int32_t> encode_chat(const templates::ChatInput& conversation) const;
  /// A plain prompt as ids, with the begin token if the model wants one and special tokens parsed.
  std::vector<std::int32_t> encode_text(std::string_view text) const;
  /// A text to be embedded as ids: with the begin and the end token where the model wants them. An embedding model looks back from the end.
  std::vector<std::int32_t> encode_whole(std::string_view text) const;
};

}  // namespace quern::engine
