"""What OpenAI's Python client makes of a server at $OPENAI_BASE_URL that serves a small chat model as "tiny", with 2048 tokens of context and
the key $OPENAI_API_KEY. Prints a line a check; exit status 1 when one fails."""
import asyncio
import json
import math
import sys
import time
import traceback
import urllib.request
import os

import openai

MODEL = "tiny"
client = openai.OpenAI(max_retries=0)
ASK = [{"role": "user", "content": "What is the capital of France?"}]
checks = []


def check(function):
    checks.append(function)
    return function


def chat(**more):
    return client.chat.completions.create(model=MODEL, messages=ASK, **{"temperature": 0, "max_tokens": 16, **more})


def fails(kind, act):
    try:
        act()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


@check
def models_are_listed_and_found():
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).created == client.models.retrieve(MODEL).created > 0
    assert fails(openai.NotFoundError, lambda: client.models.retrieve("none")).code == "model_not_found"


@check
def a_chat_is_answered_with_usage():
    r = chat()
    assert "Paris" in r.choices[0].message.content and r.choices[0].message.role == "assistant"
    assert r.choices[0].finish_reason == "stop" and r.object == "chat.completion" and r.id.startswith("chatcmpl-")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    assert r.usage.prompt_tokens_details.cached_tokens is not None and r.usage.completion_tokens_details.reasoning_tokens == 0
    assert chat(max_tokens=3).choices[0].finish_reason == "length"
    assert chat(max_completion_tokens=2, max_tokens=9).usage.completion_tokens == 2


@check
def a_stream_gives_the_same_text_and_ends_with_usage():
    whole = chat()
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "stop" and all(c.choices[0].finish_reason is None for c in chunks[:-2])
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({(c.id, c.created, c.model) for c in chunks}) == 1 and all(c.usage is None for c in chunks[:-1])
    assert all(c.usage is None for c in chat(stream=True))
    steady = list(chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [c.usage.completion_tokens for c in steady]
    assert counts == sorted(counts) and counts[0] == 0


@check
def the_stream_helper_accumulates():
    with client.chat.completions.stream(model=MODEL, messages=ASK, temperature=0, max_tokens=16, logprobs=True) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done", "logprobs.content.delta"} <= kinds, kinds
    assert "Paris" in final.choices[0].message.content


@check
def logprobs_of_chats():
    r = chat(logprobs=True, top_logprobs=5)
    content = r.choices[0].logprobs.content
    assert len(content) == r.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 5 and token.top_logprobs[0].logprob == token.logprob
        assert bytes(token.bytes).decode(errors="replace") == token.token
        assert sum(math.exp(t.logprob) for t in token.top_logprobs) <= 1.0001
    assert "".join(bytes(t.bytes).decode() for t in content[:-1]) == r.choices[0].message.content
    streamed = [t for c in chat(stream=True, logprobs=True, top_logprobs=5) if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert [(t.token, t.logprob) for t in streamed] == [(t.token, t.logprob) for t in content]
    assert chat(logprobs=True).choices[0].logprobs.content[0].top_logprobs == []


@check
def several_answers_and_seeds():
    def texts(**more):
        return [c.message.content for c in chat(temperature=1.5, n=3, **more).choices]
    assert texts(seed=5) == texts(seed=5) != texts(seed=6) and len(set(texts(seed=5))) > 1
    chunks = list(chat(temperature=1.5, n=3, seed=5, stream=True))
    by_index = {}
    for c in chunks:
        by_index.setdefault(c.choices[0].index, []).append(c.choices[0].delta.content or "")
    assert ["".join(by_index[i]) for i in range(3)] == texts(seed=5)


@check
def stop_strings():
    assert chat(stop="France").choices[0].message.content == "The capital of "
    assert chat(stop=["xyz", " is"]).choices[0].message.content == "The capital of France"
    assert "".join(c.choices[0].delta.content or "" for c in chat(stop=" of France is", stream=True)) == "The capital"
    assert chat(stop="France", extra_body={"include_stop_str_in_output": True}).choices[0].message.content == "The capital of France"


@check
def completions_with_lists_ids_echo_and_logprobs():
    def complete(prompt, **more):
        return client.completions.create(model=MODEL, prompt=prompt, **{"temperature": 0, "max_tokens": 5, **more})
    one = complete("Once upon a time")
    assert one.object == "text_completion" and one.choices[0].finish_reason == "length" and one.usage.completion_tokens == 5
    many = complete(["Once upon a time", "Once upon a time"], n=2)
    assert [c.index for c in many.choices] == [0, 1, 2, 3] and {c.text for c in many.choices} == {one.choices[0].text}
    assert many.usage.prompt_tokens == 2 * one.usage.prompt_tokens
    ids = json.load(request("/tokenize", {"prompt": "Once upon a time"}))["tokens"]
    assert complete(ids).choices[0].text == complete([ids]).choices[0].text == one.choices[0].text
    assert complete("Once upon a time", echo=True).choices[0].text == "Once upon a time" + one.choices[0].text
    assert complete("Once upon a time", echo=True, max_tokens=0).choices[0].text == "Once upon a time"
    logprobs = complete("Once upon a time", logprobs=2).choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == 5
    assert "".join(logprobs.tokens) == one.choices[0].text
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:i])) for i in range(5)]
    assert "".join(c.choices[0].text for c in complete("Once upon a time", stream=True)) == one.choices[0].text
    assert one.usage.prompt_tokens == len(ids)


@check
def scores_of_prompts_and_the_best_of_several():
    def complete(**more):
        return client.completions.create(model=MODEL, prompt="Once upon a time", **{"temperature": 0, "max_tokens": 5, **more})
    both = complete(echo=True, logprobs=1).choices[0]
    n = len(both.logprobs.tokens) - 5
    assert "".join(both.logprobs.tokens) == both.text and both.logprobs.token_logprobs[0] is None and n >= 4
    assert all(x <= 0 for x in both.logprobs.token_logprobs[1:])
    scored = complete(echo=True, logprobs=1, max_tokens=0).choices[0]
    assert scored.text == "Once upon a time" and scored.logprobs.token_logprobs == both.logprobs.token_logprobs[:n]
    best = complete(temperature=1.2, seed=3, n=2, best_of=6, logprobs=0)
    assert [c.index for c in best.choices] == [0, 1] and best.usage.completion_tokens >= 6
    means = [sum(c.logprobs.token_logprobs) / len(c.logprobs.token_logprobs) for c in best.choices]
    assert means == sorted(means, reverse=True)
    beams = complete(n=3, logprobs=0, extra_body={"use_beam_search": True}).choices
    assert len({c.text for c in beams}) == 3
    assert sum(beams[0].logprobs.token_logprobs) >= sum(complete(logprobs=0).choices[0].logprobs.token_logprobs) - 1e-3


@check
def embeddings_as_the_client_asks_for_them_and_as_floats():
    def embed(x, **more):
        return client.embeddings.create(model=MODEL, input=x, **more)
    texts = ["a cat sits on the mat", "a kitten lies on the rug", "the bond market fell on Tuesday"]
    r = embed(texts)  # the client asks for base64 unless told otherwise
    assert [e.index for e in r.data] == [0, 1, 2] and r.usage.total_tokens == r.usage.prompt_tokens > 15
    floats = embed(texts, encoding_format="float")
    assert all(abs(x - y) < 1e-6 for a, b in zip(r.data, floats.data) for x, y in zip(a.embedding, b.embedding))
    for e in r.data:
        assert abs(sum(x * x for x in e.embedding) - 1) < 1e-4
    ids = json.load(request("/tokenize", {"prompt": texts[0]}))["tokens"]
    assert embed(ids).data[0].embedding == embed([ids]).data[0].embedding == embed(texts[0]).data[0].embedding == r.data[0].embedding
    assert len(embed("x", dimensions=8).data[0].embedding) == 8
    e = fails(openai.BadRequestError, lambda: embed("word " * 4000))
    assert e.code == "context_length_exceeded" and e.param == "input" and "2048" in e.message


@check
def sampling_parameters():
    forced = json.load(request("/tokenize", {"prompt": " yes"}))["tokens"][0]
    assert chat(logit_bias={forced: 100}, max_tokens=3).choices[0].message.content.strip() == "yes yes yes"
    longer = chat(max_tokens=40, extra_body={"ignore_eos": True, "top_k": 1, "min_p": 0.1, "repetition_penalty": 1.1})
    assert longer.usage.completion_tokens == 40
    chat(presence_penalty=1, frequency_penalty=1, top_p=0.5, temperature=1, user="me", metadata={"a": "b"})


@check
def parts_of_text_and_roles():
    parts = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]}]
    client.chat.completions.create(model=MODEL, messages=parts, max_tokens=2)


@check
def errors_are_openai_s():
    e = fails(openai.BadRequestError, lambda: chat(temperature=3))
    assert e.param == "temperature" and e.type == "invalid_request_error" and "temperature" in e.message
    e = fails(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 4000}]))
    assert e.code == "context_length_exceeded" and e.param == "messages" and "2048" in e.message
    assert fails(openai.NotFoundError, lambda: client.chat.completions.create(model="gpt", messages=ASK)).code == "model_not_found"
    assert fails(openai.AuthenticationError, lambda: openai.OpenAI(api_key="wrong", max_retries=0).models.list()).code == "invalid_api_key"
    assert fails(openai.BadRequestError, lambda: chat(response_format={"type": "json_object"})).param == "response_format"
    assert fails(openai.BadRequestError, lambda: chat(top_logprobs=2)).param == "top_logprobs"
    assert fails(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[])).param == "messages"
    assert fails(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input="")).param == "input"
    assert fails(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input="x", dimensions=1 << 20)).param == "dimensions"


@check
def a_cancelled_stream_stops_the_work():
    for _ in range(5):
        stream = chat(stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    end = time.time() + 5
    while time.time() < end and gauge("vllm:num_requests_running") + gauge("vllm:num_requests_waiting") > 0:
        time.sleep(0.02)
    assert gauge("vllm:num_requests_running") == 0


@check
def many_at_once_get_their_own_answers():
    async def ask(c, i):
        r = await c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": f"Count to {i % 4}"}], temperature=0, max_tokens=12)
        return i % 4, r.choices[0].message.content

    async def all_of_them():
        async with openai.AsyncOpenAI(max_retries=0) as c:
            return await asyncio.gather(*(ask(c, i) for i in range(40)))
    answers = set(asyncio.run(all_of_them()))
    assert len(answers) == 4, answers


def request(path, body=None):
    base = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(base + path, data, {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}))


def gauge(name):
    for line in request("/metrics").read().decode().splitlines():
        if line.startswith(name + "{"):
            return float(line.split()[-1])
    raise AssertionError(f"no {name}")


failures = 0
for act in checks:
    try:
        act()
        print(f"ok    python  {act.__name__}")
    except Exception:
        failures += 1
        print(f"FAIL  python  {act.__name__}")
        traceback.print_exc()
sys.exit(failures > 0)
