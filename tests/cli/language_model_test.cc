// Commands on a language model of random weights. Its tokens 0 … 255 are the bytes, 256 … 287 are control tokens, the last ends a text.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "formats/npy/npy.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LanguageModel : public ::testing::Test {
 protected:
  LanguageModel() {
    testing::write_tiny_llama(model);
    testing::TinyLlama with_template;
    with_template.more = [](gguf::Writer& out) {
      out.set("general.name", "Tiny \x1b[31m");
      out.set("tokenizer.chat_template", "{% for m in messages %}<|256|>{{ m.role }}:{{ m.content }}<|257|>{% endfor %}");
    };
    testing::write_tiny_llama(chat_model, with_template);
  }

  std::vector<std::string> raw(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"run", model, "--raw", "-p", "Once", "-n", "12"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Folder folder;
  std::string model = folder / "tiny.gguf", chat_model = folder / "chat.gguf";
};

json parsed(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST_F(LanguageModel, tokenize_shows_ids_and_pieces) {
  const json out = parsed(quern({"tokenize", model, "--json"}, "Hi<|256|>"));
  EXPECT_EQ(out["ids"], json({'H', 'i', 256}));
  EXPECT_EQ(out["count"], 3);
  EXPECT_EQ(out["tokens"][2], json({{"id", 256}, {"piece", "<|256|>"}, {"special", true}, {"begin", 2}, {"end", 9}}));
  EXPECT_EQ(quern({"tokenize", model, "-p", "A"}).out, "     65  \"A\"\n");
}

TEST_F(LanguageModel, tokenize_keeps_special_texts_plain_when_told_so) {
  EXPECT_EQ(parsed(quern({"tokenize", model, "--no-special", "--json", "-p", "<|256|>"}))["count"], 7);
}

TEST_F(LanguageModel, tokenize_shows_parts_of_characters_as_bytes) {
  const json out = parsed(quern({"tokenize", model, "--json", "-p", "é"}));
  EXPECT_EQ(out["tokens"][0]["bytes"], json({0xc3}));
  EXPECT_THAT(quern({"tokenize", model, "-p", "é"}).out, HasSubstr("195  \"\\xc3\""));
}

TEST_F(LanguageModel, tokenize_takes_json_strings_line_by_line) {
  const Outcome outcome = quern({"tokenize", model, "--lines-json"}, "\"a\\nb\"\n\"\"\n");
  EXPECT_EQ(outcome.out, "{\"ids\":[97,10,98]}\n{\"ids\":[]}\n");
  EXPECT_THAT(quern({"tokenize", model, "--lines-json"}, "\"a\"\n{}\n").err,
              HasSubstr("line 2 of the input is neither a JSON string nor an array of ids"));
}

TEST_F(LanguageModel, tokenize_turns_ids_into_text) {
  EXPECT_EQ(quern({"tokenize", model, "--ids", "72,105"}).out, "Hi\n");
  EXPECT_EQ(quern({"tokenize", model, "--ids", "99999"}).status, 1);
}

TEST_F(LanguageModel, inspect_says_what_the_model_is_and_needs) {
  const json out = parsed(quern({"inspect", chat_model, "--json"}));
  EXPECT_EQ(out["format"], "gguf");
  EXPECT_EQ(out["architecture"], "llama");
  EXPECT_EQ(out["supported"], true);
  EXPECT_EQ(out["context_length"], 512);
  EXPECT_EQ(out["layers"], 2);
  EXPECT_EQ(out["tokenizer"]["tokens"], 288);
  EXPECT_THAT(out["chat_template"].get<std::string>(), StartsWith("{% for m"));
  EXPECT_EQ(out["memory"]["cache_bytes_per_token"], 2 * 2 * 2 * 16 * 2);  // layers, keys and values, heads, head size, f16
  EXPECT_EQ(out["memory"]["cache_bytes"], 512 * 256);
  EXPECT_EQ(out["memory"]["cache_window_bytes"], 0);
  EXPECT_GT(out["memory"]["packed_weight_bytes"], 0);
  EXPECT_GT(out["memory"]["activation_bytes"], 512 * 288);
  EXPECT_EQ(out["metadata"]["tokenizer.ggml.tokens"]["size"], 288);
  EXPECT_EQ(out["metadata"]["tokenizer.ggml.tokens"]["first"].size(), 8);
  std::int64_t parameters = 0;
  for (const json& tensor : out["tensors"]) {
    std::int64_t elements = 1;
    for (const json& d : tensor["shape"]) elements *= d.get<std::int64_t>();
    parameters += elements;
  }
  EXPECT_EQ(out["parameters"], parameters);
  const Outcome exact = quern({"inspect", chat_model, "--json", "--precision", "exact"});
  EXPECT_EQ(parsed(exact)["memory"]["cache_bytes_per_token"], 512);
}

TEST_F(LanguageModel, inspect_shows_nothing_that_drives_the_terminal) {
  const Outcome outcome = quern({"inspect", chat_model, "-v"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Tiny \\x1b[31m"));
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST_F(LanguageModel, texts_of_the_model_do_not_drive_the_terminal_either) {
  testing::TinyLlama hostile;
  hostile.more = [](gguf::Writer& out) { out.set("tokenizer.chat_template", "a\x1b]0;b\nc"); };
  testing::write_tiny_llama(folder / "hostile.gguf", hostile);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"inspect", folder / "hostile.gguf", "--template"},
                                                    {"tokenize", model, "--ids", "97,27,93,48,59,98,10,99"}}) {
    Terminal terminal(arguments, folder.path());
    EXPECT_TRUE(terminal.shows("a\\x1b]0;b\r\nc")) << terminal.shown();
    EXPECT_EQ(terminal.status(), 0);
  }
}

TEST_F(LanguageModel, inspect_prints_the_chat_template_alone) {
  EXPECT_THAT(quern({"inspect", chat_model, "--template"}).out, ::testing::MatchesRegex("\\{% for m.*endfor %\\}\n"));
  EXPECT_EQ(quern({"inspect", model, "--template"}).status, 1);
}

TEST_F(LanguageModel, inspect_works_for_a_model_that_quern_cannot_run) {
  testing::TinyLlama strange;
  strange.architecture = "strange";
  testing::write_tiny_llama(folder / "strange.gguf", strange);
  const json out = parsed(quern({"inspect", folder / "strange.gguf", "--json"}));
  EXPECT_EQ(out["supported"], false);
  EXPECT_THAT(out["unsupported"].get<std::string>(), HasSubstr("strange"));
  EXPECT_EQ(out["memory"], nullptr);
  EXPECT_EQ(out["layers"], 2);
  const Outcome outcome = quern({"inspect", folder / "strange.gguf"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Quern cannot run this model"));
  EXPECT_THAT(quern({"run", folder / "strange.gguf", "-p", "x"}).err, HasSubstr("strange"));
}

TEST_F(LanguageModel, eval_logits_writes_a_row_for_each_id) {
  const Outcome outcome = quern({"eval", "logits", model, "--ids", "72,105,32,10", "--out", folder / "a.npy", "--precision", "exact"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const npy::Array logits = npy::read_file(folder / "a.npy");
  EXPECT_EQ(logits.dtype, ir::DType::f32);
  EXPECT_THAT(logits.shape, ElementsAre(4, 288));
  quern({"eval", "logits", model, "--ids", "72,105,32,10", "--out", folder / "b.npy", "--precision", "exact", "--chunk", "1", "--threads",
         "1"});
  EXPECT_TRUE(read_file(folder / "a.npy") == read_file(folder / "b.npy")) << "in chunks of one token the logits differ";
  EXPECT_THAT(quern({"eval", "logits", model, "--ids", "288", "--out", folder / "c.npy"}).err, HasSubstr("288"));
}

TEST_F(LanguageModel, bench_measures) {
  const json out = parsed(quern({"bench", model, "--prompt", "8", "--generate", "4", "--batch", "2", "--json"}));
  for (const char* key : {"prompt_tokens_per_s", "generate_tokens_per_s", "time_to_first_token_s", "load_s", "peak_rss_bytes"})
    EXPECT_GT(out[key], 0) << key;
}

TEST_F(LanguageModel, run_answers_on_stdout_and_nothing_else) {
  const Outcome outcome = quern(raw({"--temp", "0"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, ::testing::EndsWith("\n"));
  EXPECT_EQ(quern(raw({"--temp", "0", "--threads", "1"})).out, outcome.out);
  EXPECT_EQ(quern({"run", model, "--raw", "-n", "12", "--temp", "0"}, "Once").out, outcome.out) << "standard input differs from -p";
  EXPECT_EQ(quern({"run", model, "--raw", "-n", "12", "--temp", "0", "Once"}).out, outcome.out) << "TEXT differs from -p";
}

TEST_F(LanguageModel, run_repeats_with_a_seed) {
  const auto with_seed = [&](const char* seed) {
    return quern(raw({"--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", seed})).out;
  };
  EXPECT_EQ(with_seed("7"), with_seed("7"));
  EXPECT_NE(with_seed("7"), with_seed("8"));
}

TEST_F(LanguageModel, run_says_with_v_how_long_it_took) {
  EXPECT_THAT(quern(raw({"-v", "--seed", "5"})).err, ContainsRegex("prompt 4 tokens in .* tokens/s\\), answer .*, seed 5, (length|stop)"));
}

TEST_F(LanguageModel, run_continues_a_text_when_there_is_no_template) {
  const Outcome outcome = quern({"run", model, "-p", "Once", "-n", "12", "--temp", "0"});
  EXPECT_THAT(outcome.err, HasSubstr("quern: note: the model has no chat template"));
  EXPECT_EQ(outcome.out, quern(raw({"--temp", "0"})).out);
  EXPECT_THAT(quern({"run", model, "-p", "x", "--system", "y"}).err, HasSubstr("--system needs a chat template"));
}

TEST_F(LanguageModel, run_renders_the_template) {
  // <|256|>user:Hi<|257|> is 1 + 7 + 1 tokens; the line end of standard input is echo's and not the user's.
  EXPECT_THAT(quern({"run", chat_model, "-n", "1", "-v"}, "Hi\n").err, HasSubstr("prompt 9 tokens"));
  EXPECT_THAT(quern({"run", chat_model, "-n", "1", "-v", "--system", "S", "-p", "Hi"}).err, HasSubstr("prompt 19 tokens"));
  // What a user writes makes no control tokens: 7 characters instead of one token.
  EXPECT_THAT(quern({"run", chat_model, "-n", "1", "-v", "-p", "<|256|>"}).err, HasSubstr("prompt 14 tokens"));
}

TEST_F(LanguageModel, run_takes_text_with_brackets_and_names_of_commands) {
  EXPECT_THAT(quern({"run", chat_model, "-n", "1", "-v", "[a,b]", "bench"}).err, HasSubstr("prompt 18 tokens"));
}

TEST_F(LanguageModel, run_refuses_a_prompt_that_does_not_fit) {
  const Outcome outcome = quern({"run", model, "--raw", "--ctx", "16"}, std::string(40, 'x'));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, ::testing::AllOf(HasSubstr("40"), HasSubstr("16")));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(LanguageModel, run_says_when_the_context_is_full) {
  testing::TinyLlama endless;
  endless.seed = 3;
  testing::write_tiny_llama(folder / "m.gguf", endless);
  const Outcome outcome = quern({"run", folder / "m.gguf", "--raw", "-p", "Once", "--ctx", "32", "--temp", "0"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, ::testing::AnyOf("", HasSubstr("the context of 32 tokens is full")));
}

TEST_F(LanguageModel, run_without_text_is_a_wrong_use) { EXPECT_EQ(quern({"run", model}).status, 2); }

TEST_F(LanguageModel, run_refuses_options_of_graphs) {
  const Outcome outcome = quern({"run", model, "--inputs", "x", "-p", "y"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--inputs is for graphs"));
}

TEST_F(LanguageModel, a_broken_template_is_an_error_with_its_place) {
  testing::TinyLlama broken;
  broken.more = [](gguf::Writer& out) { out.set("tokenizer.chat_template", "{% for %}"); };
  testing::write_tiny_llama(folder / "broken.gguf", broken);
  const Outcome outcome = quern({"run", folder / "broken.gguf", "-p", "x"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, ContainsRegex("line 1, column [0-9]+"));
}

TEST_F(LanguageModel, chat_answers_and_obeys) {
  Terminal terminal({"run", chat_model, "--seed", "1", "-n", "4", "-v"}, folder.path());
  ASSERT_TRUE(terminal.shows("/help lists commands")) << terminal.shown();
  ASSERT_TRUE(terminal.shows(">>> "));
  terminal.type("Hi\r");
  ASSERT_TRUE(terminal.shows("prompt 9 tokens")) << terminal.shown();
  ASSERT_TRUE(terminal.shows(">>> "));
  terminal.type("Two\\\r");
  ASSERT_TRUE(terminal.shows("... "));
  terminal.type("lines\r");
  ASSERT_TRUE(terminal.shows("seed 1")) << terminal.shown();
  terminal.type("/clear\r");
  ASSERT_TRUE(terminal.shows("A new conversation"));
  terminal.type("\x1b[200~a\rb\x1b[201~\r");  // pasted: "a", a line end, "b"
  ASSERT_TRUE(terminal.shows("prompt 10 tokens")) << terminal.shown();
  terminal.type("/set temp 0.5\r");
  ASSERT_TRUE(terminal.shows("temp is 0.5"));
  terminal.type("/set temp warm\r");
  ASSERT_TRUE(terminal.shows("a number from 0 to 100 is needed"));
  terminal.type("/frobnicate\r");
  ASSERT_TRUE(terminal.shows("/help lists them"));
  terminal.type("\x1b[A\x1b[A\x1b[A\x1b[A\r");  // four lines back: what was pasted
  ASSERT_TRUE(terminal.shows("tokens in")) << terminal.shown();
  ASSERT_TRUE(terminal.shows(">>> "));
  terminal.type("/exit\r");
  EXPECT_EQ(terminal.status(), 0);
  EXPECT_THAT(read_file(folder / "quern/history"), HasSubstr("Hi"));
}

TEST_F(LanguageModel, ctrl_c_ends_the_line_and_twice_the_program) {
  Terminal terminal({"run", chat_model}, folder.path());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("half a line");
  ASSERT_TRUE(terminal.shows("half a line")) << terminal.shown();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("Ctrl-C once more")) << terminal.shown();
  ASSERT_TRUE(terminal.shows(">>> "));
  terminal.type("\x03");
  EXPECT_EQ(terminal.status(), 0);
}

TEST_F(LanguageModel, ctrl_d_leaves) {
  Terminal terminal({"run", chat_model}, folder.path());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.status(), 0);
}

}  // namespace
}  // namespace quern::cli
