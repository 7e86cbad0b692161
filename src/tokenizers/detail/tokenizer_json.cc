#include "tokenizers/detail/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <limits>
#include <optional>
#include <span>

#include "base/error.h"
#include "tokenizers/detail/json_steps.h"
#include "tokenizers/detail/pipeline.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::int64_t kMaxId = (1 << 24) - 1;  // ids are places in an array: the largest vocabularies have 2^18
constexpr std::size_t kMaxAdded = 1 << 18;
constexpr std::size_t kManyMerges = 1 << 15;  // that are worth a thread

struct AddedJson {
  AddedTokens::Token token;
  bool normalized = true;
};

std::vector<AddedJson> read_added(JsonReader& json) {
  std::vector<AddedJson> all;
  json.array([&] {
    if (all.size() >= kMaxAdded)
      throw Error(Code::resource_exhausted, fmt::format("the tokenizer has more than {} added tokens", kMaxAdded));
    AddedJson& added = all.emplace_back();
    json.object([&](std::string_view key) {
      if (key == "content") {
        added.token.text = json.string();
        if (valid_prefix(added.token.text) != added.token.text.size()) json.fail("a token that is not UTF-8");
      } else if (key == "single_word") {
        added.token.single_word = json.boolean();
      } else if (key == "lstrip") {
        added.token.lstrip = json.boolean();
      } else if (key == "rstrip") {
        added.token.rstrip = json.boolean();
      } else if (key == "special") {
        added.token.special = json.boolean();
      } else if (key == "normalized") {
        added.normalized = json.boolean();
      } else {
        json.skip();
      }
    });
  });
  return all;
}

/// The "model" of the file. Its members may come in any order; merges are read once the vocabulary is there.
class ModelJson {
 public:
  explicit ModelJson(JsonReader& json) : json_(json) {}

  void read() {
    json_.object([&](std::string_view key) {
      const auto string = [&](std::string& out) {
        if (!json_.null()) out = json_.string();
      };
      const auto flag = [&](bool& out) {
        if (!json_.null()) out = json_.boolean();
      };
      if (key == "type") return string(type_);
      if (key == "vocab") return read_vocabulary();
      if (key == "merges") return note_merges();
      if (key == "unk_token") return string(unknown_);
      if (key == "unk_id") return void(json_.null() || (unknown_id_ = static_cast<std::int32_t>(json_.integer(0, kMaxId))));
      if (key == "continuing_subword_prefix") return string(prefix_);
      if (key == "end_of_word_suffix") return string(bpe_.suffix);
      if (key == "fuse_unk") return flag(bpe_.fuse_unknown);
      if (key == "byte_fallback") return flag(bpe_.byte_fallback);
      if (key == "ignore_merges") return flag(bpe_.ignore_merges);
      if (key == "max_input_chars_per_word")
        return void(max_characters_ = static_cast<std::size_t>(json_.integer(0, std::numeric_limits<std::int32_t>::max())));
      json_.skip();
    });
    if (type_.empty()) type_ = !scores_.empty() ? "Unigram" : merges_at_ ? "BPE" : max_characters_ ? "WordPiece" : "WordLevel";
    if (merges_at_ && !merges_.valid()) {
      const std::size_t end = json_.offset();
      json_.seek(*merges_at_);
      read_merges();
      json_.seek(end);
    }
    if (!indexed_) vocabulary_.index();
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

  std::unique_ptr<WordModel> make(PieceCutter& cutter) {
    if (type_ == "BPE") {
      // Words may be bytes and not their spelling: the same ids in a fraction of the time.
      bpe_.bytes = cutter.ends_in_bytes() && prefix_.empty() && bpe_.suffix.empty() && !bpe_.byte_fallback && unknown_.empty() &&
                   vocabulary_.to_bytes();
      if (bpe_.bytes) cutter.drop_spelling();
      bpe_.unknown = unknown_;
      bpe_.prefix = prefix_;
      return make_bpe_model(std::move(vocabulary_),
                            merges_.valid() ? merges_.get() : MergeTable(vocabulary_.size(), {}, MergeTable::Which::last), bpe_);
    }
    if (type_ == "WordPiece") return make_word_piece_model(std::move(vocabulary_), {unknown_, prefix_, max_characters_.value_or(100)});
    if (type_ == "WordLevel") return make_word_level_model(std::move(vocabulary_), unknown_);
    if (type_ == "Unigram") {
      double lowest = std::numeric_limits<double>::infinity();
      for (const double score : scores_) lowest = std::min(lowest, score);
      return make_unigram_model(std::move(vocabulary_), std::move(scores_),
                                {.unknown = unknown_id_, .byte_fallback = bpe_.byte_fallback, .unknown_score = lowest - 10});
    }
    throw Error(Code::unsupported, fmt::format("the model '{}' is not supported", type_.substr(0, 80)))
        .hint("supported: BPE, WordPiece, WordLevel, Unigram");
  }

 private:
  void read_vocabulary() {
    if (has_vocabulary_) json_.fail("a second vocabulary");  // merges may have been read by the first
    PageVector<std::string_view> tokens;
    std::vector<bool> present;
    std::deque<std::string> unescaped;  // tokens that are not spelled in the file as they are
    std::string buffer;
    const auto keep = [&](std::string_view text) {
      return text.data() == buffer.data() ? std::string_view(unescaped.emplace_back(text)) : text;
    };
    const auto place = [&](std::string_view text, std::size_t id) {
      if (id == tokens.size()) return tokens.push_back(text), present.push_back(true);
      if (id > tokens.size()) tokens.resize(id + 1), present.resize(id + 1);
      if (present[id]) json_.fail(fmt::format("two tokens have id {}", id));
      tokens[id] = text;
      present[id] = true;
    };
    if (json_.kind() == JsonReader::Kind::object) {
      json_.object(buffer, [&](std::string_view key) {
        const std::string_view text = keep(key);
        place(text, static_cast<std::size_t>(json_.integer(0, kMaxId)));
      });
    } else {
      scores_.clear();
      json_.array([&] {
        std::size_t n = 0;
        json_.array([&] {
          if (n == 0) {
            place(keep(json_.string(buffer)), scores_.size());
          } else if (n == 1) {
            scores_.push_back(json_.number());
          } else {
            json_.fail("a token of a Unigram is its text and its score");
          }
          ++n;
        });
        if (n != 2) json_.fail("a token of a Unigram is its text and its score");
        if (scores_.size() > static_cast<std::size_t>(kMaxId))
          throw Error(Code::resource_exhausted, "the vocabulary has 2^24 tokens or more");
      });
    }
    // An id far above the count would take memory for nothing.
    const auto count = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
    if (tokens.size() > 4 * count + (1 << 20)) json_.fail("ids are much larger than the vocabulary");
    vocabulary_ = Vocabulary(tokens, std::move(present), false);
    has_vocabulary_ = true;
  }

  void note_merges() {
    merges_at_ = json_.offset();
    has_vocabulary_ ? read_merges() : json_.skip();
  }

  void read_merges() {
    const std::size_t begin = json_.offset();
    MergeReader reader = vocabulary_.merge_reader(json_.rest().size() / std::string_view(R"("a b",)").size() + 1);
    indexed_ = true;
    const auto add = [&](std::string_view left, std::string_view right) {
      if (right.size() < prefix_.size()) json_.fail("a merge whose right half lacks the prefix of continuing tokens");
      reader.add(left, right, prefix_.size());
    };
    std::string buffer;
    const auto string = [&] {
      const std::string_view text = json_.string(buffer);
      return text.data() == buffer.data() ? reader.keep(text) : text;
    };
    json_.array([&] {
      if (json_.kind() == JsonReader::Kind::string) {
        const std::string_view merge = string();
        const std::size_t space = merge.find(' ');
        if (space == merge.npos || merge.find(' ', space + 1) != merge.npos) json_.fail("a merge is two tokens with a space between");
        return add(merge.substr(0, space), merge.substr(space + 1));
      }
      std::string_view parts[2];
      std::size_t n = 0;
      json_.array([&] {
        if (n >= 2) json_.fail("a merge is of two tokens");
        parts[n++] = string();
      });
      if (n != 2) json_.fail("a merge is of two tokens");
      add(parts[0], parts[1]);
    });
    PageVector<ResolvedMerge> merges = reader.finish();
    const auto none = std::find_if(merges.begin(), merges.end(), [](const ResolvedMerge& merge) { return merge.left < 0; });
    if (none != merges.end()) fail_merge(begin, none - merges.begin());
    // By a second thread, while this one makes what has nothing to do with merges.
    merges_ =
        std::async(merges.size() >= kManyMerges ? std::launch::async | std::launch::deferred : std::launch::deferred,
                   [tokens = vocabulary_.size(), all = std::move(merges)] { return MergeTable(tokens, all, MergeTable::Which::last); });
  }

  [[noreturn]] void fail_merge(std::size_t array, std::ptrdiff_t which) {
    json_.seek(array);
    json_.array([&] {
      json_.kind();
      const std::string_view rest = json_.rest();
      json_.skip();
      if (which-- == 0)
        json_.fail(fmt::format("the merge {} names or makes a token that is not in the vocabulary",
                               rest.substr(0, std::min<std::size_t>(rest.size() - json_.rest().size(), 80))));
    });
    json_.fail("a merge names or makes a token that is not in the vocabulary");
  }

  JsonReader& json_;
  std::string type_, unknown_, prefix_;
  std::int32_t unknown_id_ = -1;
  BpeOptions bpe_;
  std::optional<std::size_t> max_characters_, merges_at_;
  Vocabulary vocabulary_;
  bool has_vocabulary_ = false;
  std::vector<double> scores_;
  bool indexed_ = false;
  std::future<MergeTable> merges_;
};

/// The tokens of the model and the added ones, by id.
struct AllTokens {
  PageVector<std::string_view> texts;
  PageVector<std::int32_t> types;

  void set(std::size_t id, std::string_view text, TokenType type) {
    if (id >= texts.size()) texts.resize(id + 1), types.resize(id + 1, static_cast<std::int32_t>(TokenType::unused));
    texts[id] = text;
    types[id] = static_cast<std::int32_t>(type);
  }
};

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const TokenizerSettings& settings) {
  JsonReader json(text);
  Pipeline pipeline;
  std::vector<AddedJson> added;
  std::optional<ModelJson> model;
  bool has_decoder = false;
  json.object([&](std::string_view key) {
    if (key == "added_tokens") {
      added = read_added(json);
    } else if (key == "normalizer") {
      read_normalizer(json, pipeline.normalizer);
    } else if (key == "pre_tokenizer") {
      read_pre_tokenizer(json, pipeline.cutter);
    } else if (key == "post_processor") {
      read_post_processor(json, pipeline.frame);
    } else if (key == "decoder") {
      read_decoder(json, pipeline.decoder);
      has_decoder = true;
    } else if (key == "model") {
      model.emplace(json);
      model->read();
    } else {
      json.skip();
    }
  });
  json.finish();
  if (!model) throw Error(Code::data_corrupt, "the tokenizer has no model");
  if (!has_decoder) pipeline.decoder.add(decoders::Join{}), pipeline.decoder.finish();

  AllTokens all;
  const Vocabulary& vocabulary = model->vocabulary();
  all.texts.reserve(vocabulary.size() + added.size()), all.types.reserve(vocabulary.size() + added.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.has(id)) all.set(id, vocabulary[id], TokenType::normal);
  // An added token that the model lacks gets the next number after the count of the model's tokens, whatever number the file gives it.
  std::size_t next = vocabulary.count();
  std::vector<std::pair<std::string_view, std::size_t>> known;
  TokenIndex index(added.size());
  std::vector<std::string_view> added_texts;
  std::vector<std::int32_t> added_ids;
  for (AddedJson& token : added) {
    if (token.token.text.empty()) continue;
    std::int32_t id = -1;
    if (const std::int32_t before = index.find(token.token.text, added_texts); before >= 0)
      id = added_ids[static_cast<std::size_t>(before)];
    if (id < 0) id = vocabulary.find(token.token.text);
    if (id < 0) id = static_cast<std::int32_t>(next++);
    token.token.id = id;
    added_texts.push_back(token.token.text);
    added_ids.push_back(id);
    index.add(token.token.text, static_cast<std::int32_t>(added_ids.size() - 1), added_texts);
    all.set(static_cast<std::size_t>(id), token.token.text, token.token.special ? TokenType::control : TokenType::user_defined);
  }
  const auto role = [&](const std::string& name) -> std::int64_t {
    if (name.empty()) return -1;
    if (const std::int32_t before = index.find(name, added_texts); before >= 0) return added_ids[static_cast<std::size_t>(before)];
    return vocabulary.find(name);
  };
  Spec spec;
  spec.tokens = std::move(all.texts);
  spec.types = std::move(all.types);
  spec.special = {.bos = role(settings.bos),
                  .eos = role(settings.eos),
                  .unk = role(settings.unk),
                  .sep = role(settings.sep),
                  .pad = role(settings.pad),
                  .mask = role(settings.mask)};
  spec.end_ids = settings.end_ids;
  spec.add_bos = settings.add_bos;
  spec.add_eos = settings.add_eos;
  for (AddedJson& token : added) {
    if (token.token.id < 0) continue;
    pipeline.added.push_back({token.token, token.normalized});
  }
  if (pipeline.frame) {
    for (const auto* side : {&pipeline.frame->first, &pipeline.frame->second})
      for (const std::int32_t id : *side)
        if (static_cast<std::size_t>(id) >= spec.tokens.size())
          throw Error(Code::data_corrupt,
                      fmt::format("the post-processor adds token {} where the vocabulary has {} tokens", id, spec.tokens.size()));
  }
  pipeline.make_model = [&](PieceCutter& cutter) { return model->make(cutter); };
  return make_pipeline_tokenizer(spec, std::move(pipeline));
}

}  // namespace quern::tokenizers::detail
