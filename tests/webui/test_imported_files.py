"""Files of conversations that were changed at random are refused by a sentence, or the page shows what they contain."""

import json
from typing import Any

import pytest

from tests.webui.conftest import open_any_page
from tests.webui.test_conversations import ANSWER

MODEL = {"run": "gone", "snapshot": "latest"}  # a run of this server might belong to another page
BEAM = {"method": "beam", "beam_width": 2}
REPLY = ANSWER | {
    **{
        "run": "gone",
        "reply": "c d",
        "alternatives": [{"text": "c d", "score": -1.5}, {"text": "c", "score": -2}],
        "ended": True,
    },
    **{"attention": [[0.5, 0.5], [0.25, 0.75]], "source_words": ["a", "b"], "reply_words": ["c", "d"]},
    **{"unknown_words": ["b"], "warnings": ["b is unknown"]},
}
ANSWERED = MODEL | {"decoding": BEAM, "answer": REPLY, "time": "2026-05-01T12:00:00Z", "contextTurns": 1}
LINKED = ANSWERED | {"linked": {"isSame": True, "note": "The same."}}
TURN = {"id": "1", "parent": None, "follows": 0, "text": "a b", "shown": 0, "replies": [ANSWERED], "isCurrent": True}
TURNS = [TURN, TURN | {"id": "2", "isCurrent": False}, TURN | {"id": "3", "parent": "1", "replies": [LINKED] * 2}]
TOKEN = {"text": "c", "probability": 0.5, "alternatives": [{"text": "c", "probability": 0.5}]}
WRITTEN = {"request": MODEL | {"prompt": "a", "seed": 1}, "step": 3, "tokens": [TOKEN] * 2}
TRANSLATED = REPLY | {"model": MODEL | {"decoding": BEAM}, "label": "tiny"}
COLUMN = MODEL | {"decoding": BEAM, "task": "conversation"}
TALK = {"models": [MODEL] * 2, "decoding": BEAM, "seed": 1, "text": "a", "replies": [{"text": "b", "step": 2}] * 2}
RECORDS: dict[str, dict[str, Any]] = {
    "chat": {"turns": [TURNS[0] | {"before": ["x", "y"], "stopped": "c"}, *TURNS[1:]]},
    "compare": {
        "columns": [COLUMN, COLUMN | {"task": "translation"}],
        "turns": [{"id": "1", "time": 1, "text": "a b", "results": [{"reply": REPLY}, {"error": "It failed."}]}],
    },
    "talk": {"talk": TALK},
    "translate": {"model": MODEL, "lines": [{"source": "a b", "answer": TRANSLATED}, {"source": "c", "answer": None}]},
    "write": {
        "run": "writer",
        "fields": ["a", "1", "", "", "9", "1"],
        "shown": [WRITTEN | {"status": "2 tokens", "remark": "Note."}] * 2,
    },
}

TRY_FILES = """async ([base, count]) => {
    const { fromJson } = await import("/static/js/conversation_files.js");
    const { deleteRecord, loadRecord, pathTo, saveRecord } = await import("/static/js/kept.js");
    const VALUES = [null, true, 0, -1, 2.5, 1e300, "", "x", "constructor", "2026", [], {}, [null], "y".repeat(1e4)];
    const problems = [];
    let text = "", opened = 0, state = 1;
    const note = (event) => {
        event.preventDefault();
        const error = event.reason ?? event.error; // null: of a ResizeObserver, which is harmless
        if (error) problems.push(`${error} ${error.stack}: ${text}`);
    };
    for (const type of ["error", "unhandledrejection"]) addEventListener(type, note);
    const random = (limit) => (state = state * 48271 % 2147483647) % limit;
    const next = () => new Promise((resolve) => setTimeout(resolve));

    function places(value) {
        if (value === null || typeof value !== "object") return [];
        return Object.keys(value).flatMap((key) => [[value, key], ...places(value[key])]);
    }

    function change(record) {
        const all = places(record);
        const [holder, key] = all[random(all.length)];
        const [other, name] = all[random(all.length)];
        const isList = Array.isArray(holder), copy = structuredClone(other[name]);
        const ways = [
            () => { holder[key] = VALUES[random(VALUES.length)]; },
            () => { holder[key] = copy; },
            () => { if (isList) holder.push(structuredClone(holder[key])); else delete holder[key]; },
            () => { if (isList) holder.splice(key, 1); else holder[name] = copy; },
        ];
        ways[random(ways.length)]();
    }

    for (let number = 0; number < count; number++) {
        const record = structuredClone(base);
        for (let changes = random(3); changes >= 0 && number; changes--) change(record);
        text = JSON.stringify({ format: "seq2seq-chat conversations", conversations: [record] });
        const place = random(text.length);
        const other = String.fromCharCode(random(256));
        if (number % 10 === 9) text = text.slice(0, place) + other + text.slice(place + 1 + random(3));
        let records = [];
        try {
            records = fromJson(text);
        } catch (error) {
            if (!/^This file .+\\. Choose .+\\.$/.test(error.message)) problems.push(`${error}: ${text}`);
        }
        for (const one of records) {
            await saveRecord(one);
            opened += 1;
            if (one.kind !== base.kind) continue; // of another page
            history.pushState(null, "", pathTo(one));
            dispatchEvent(new PopStateEvent("popstate"));
            await loadRecord(one.id);
            await next();
            for (const details of document.querySelectorAll("main details")) details.open = true;
            for (const button of document.querySelectorAll("[data-action^=next], .line-number")) button.click();
            for (const token of document.querySelectorAll(".token")) token.focus();
            await next();
            await deleteRecord(one.id);
        }
    }
    return [opened, problems.map((problem) => problem.slice(0, 3000))];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDS)
def test_changed_files_are_refused_or_shown(page: Any, shared_server: str, kind: str) -> None:
    """Two hundred of each kind; the first is not changed."""
    page.set_viewport_size({"width": 1500, "height": 800})  # with the list of all records
    open_any_page(page, shared_server, "/" if kind == "chat" else f"/{kind}")
    record = {"kind": kind, "title": "x", "changed": "2026-05-01T12:00:00Z", **RECORDS[kind]}
    assert page.evaluate(TRY_FILES, [record, 1]) == [1, []]
    opened, problems = page.evaluate(TRY_FILES, [record, 200])
    assert not problems, json.dumps(problems[:5], indent=1)
    assert 20 < opened < 180
