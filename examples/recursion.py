"""A question over a text that no model can read at once: `recursion.py URL TOKEN TEMPLATE FILE QUESTION [CHARACTERS]`.

Code in the session cuts the text into parts and asks a model about each of them (map). What it finds is a shorter text, with which it does
the same again, until that can be read at once (reduce). The text is in the session and never in a model's context as a whole. `CHARACTERS` is
what a model reads at once. The template needs `models` ([docs/how-to/models.md](../docs/how-to/models.md)); put your own words into `PART` and `WHOLE`.
"""

import json
import sys
import urllib.parse
import urllib.request

URL, TOKEN, TEMPLATE, FILE, QUESTION = sys.argv[1].rstrip("/"), *sys.argv[2:6]
SIZE = int(sys.argv[6]) if len(sys.argv) > 6 else 50_000

CODE = """
import himalia

PART = "COUNT what this part of a text contributes to the answer, also if it is made of counts: one short line, as `place: number;`."
WHOLE = "CONCLUDE: answer the question from these counts, in one sentence."


def parts(text):
    start = 0
    while start < len(text):
        end = start + SIZE
        if end < len(text):
            end = text.rfind("\\n", start, end) + 1 or end
        yield text[start:end]
        start = end


async def answer(question, text, depth=0):
    if len(text) <= SIZE:
        return await himalia.llm(f"{question}\\n\\n{text}", system=WHOLE, temperature=0)
    prompts = [f"{question}\\n\\n{part}" for part in parts(text)]
    found = await himalia.llm_map(prompts, system=PART, temperature=0, parallel=12)
    shorter = "\\n".join(one for one in found if one)
    print(f"depth {depth}: {len(text)} characters in {len(prompts)} parts, {len(shorter)} are left")
    if len(shorter) > 0.9 * len(text):
        raise ValueError("the question does not make the text shorter")
    return await answer(question, shorter, depth + 1)


print(await answer(question, open("text").read()))
"""


def call(method, path, body=None, data=None):
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else data
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=600) as reply:
        return json.loads(reply.read() or b"null")


session = f"/v1/sessions/{call('POST', '/v1/sessions', {'template': TEMPLATE})['id']}"
try:
    with open(FILE, "rb") as text:
        call("PUT", f"{session}/files/text", data=text.read())
    code = f"question, SIZE = {QUESTION!r}, {SIZE}\n{CODE}"
    result = call("POST", f"{session}/executions?{urllib.parse.urlencode({'wait_s': 600})}", {"code": code})
    print(result["text"], end="")
    if result["error"]:
        raise SystemExit(f"{result['error']['name']}: {result['error']['value']}")
    usage = result["usage"]
    tokens = usage["model_input_tokens"] + usage["model_output_tokens"]
    print(f"{usage['model_calls']} calls of models, {tokens} tokens, spend {usage['model_spend']}")
finally:
    call("DELETE", session)
