// What OpenAI's client for node makes of the server that serve.py has started: the same as serve_openai.py, where it differs.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const ask = { model: "tiny", messages: [{ role: "user", content: "What is the capital of France?" }], temperature: 0, max_tokens: 16 };

const checks = {
  async models_are_listed() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["tiny"]);
  },
  async a_chat_is_answered() {
    const answer = await client.chat.completions.create(ask);
    assert.match(answer.choices[0].message.content, /Paris/);
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  },
  async a_stream_gives_the_same_text() {
    const whole = (await client.chat.completions.create(ask)).choices[0].message.content;
    let text = "", usage = null;
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole);
    assert.ok(usage.completion_tokens > 0);
  },
  async the_stream_helper_accumulates() {
    const stream = client.chat.completions.stream(ask);
    let text = "";
    stream.on("content", (piece) => (text += piece));
    assert.equal(await stream.finalContent(), text);
  },
  async logprobs_n_stop_and_seed() {
    const request = { ...ask, temperature: 1.2, n: 2, seed: 7, logprobs: true, top_logprobs: 2, stop: ["."] };
    const one = await client.chat.completions.create(request), two = await client.chat.completions.create(request);
    assert.deepEqual(one.choices, two.choices);
    assert.equal(one.choices[0].logprobs.content[0].top_logprobs.length, 2);
  },
  async completions_stream() {
    let text = "";
    for await (const chunk of await client.completions.create({ model: "tiny", prompt: "Once upon a", max_tokens: 4, temperature: 0, stream: true }))
      text += chunk.choices[0]?.text ?? "";
    assert.ok(text.length > 0);
  },
  async embeddings_come_in_both_forms() {
    const input = ["one text", "another"];
    const bytes = await client.embeddings.create({ model: "tiny", input });
    const floats = await client.embeddings.create({ model: "tiny", input, encoding_format: "float" });
    assert.equal(bytes.data.length, 2);
    for (let i = 0; i < 2; ++i)
      bytes.data[i].embedding.forEach((x, k) => assert.ok(Math.abs(x - floats.data[i].embedding[k]) < 1e-6));
  },
  async errors_have_code_and_param() {
    await assert.rejects(client.chat.completions.create({ ...ask, top_p: 2 }), (e) => e.status === 400 && e.param === "top_p");
    await assert.rejects(client.chat.completions.create({ ...ask, model: "other" }), (e) => e.status === 404 && e.code === "model_not_found");
    await assert.rejects(new OpenAI({ apiKey: "wrong", maxRetries: 0 }).models.retrieve("tiny"), (e) => e.status === 401);
  },
  async a_stream_can_be_cancelled() {
    const stream = await client.chat.completions.create({ ...ask, stream: true, max_tokens: 1500, ignore_eos: true });
    for await (const chunk of stream) {
      assert.ok(chunk.id);
      stream.controller.abort();
      break;
    }
  },
};

let failures = 0;
for (const [name, act] of Object.entries(checks)) {
  try {
    await act();
    console.log(`ok    node    ${name}`);
  } catch (error) {
    ++failures;
    console.log(`FAIL  node    ${name}`);
    console.error(error);
  }
}
process.exit(failures > 0 ? 1 : 0);
