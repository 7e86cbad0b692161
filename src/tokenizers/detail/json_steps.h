#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tokenizers/detail/decoder.h"
#include "tokenizers/detail/json_reader.h"
#include "tokenizers/detail/normalizer.h"
#include "tokenizers/detail/piece_cutter.h"

namespace quern::tokenizers::detail {

/// The steps of tokenizer.json, null included. Errors: data_corrupt, unsupported, resource_exhausted (more than a thousand steps).
void read_normalizer(JsonReader& json, Normalizer& out);
void read_pre_tokenizer(JsonReader& json, PieceCutter& out);
/// Null is that of no decoder: a space between tokens.
void read_decoder(JsonReader& json, Decoder& out);
using Frame = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;
/// Ids before and after a single text; nothing where the file has no rule of that kind.
void read_post_processor(JsonReader& json, std::optional<Frame>& out);

}  // namespace quern::tokenizers::detail
