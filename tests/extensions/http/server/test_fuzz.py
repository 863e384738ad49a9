"""Four thousand odd requests to all mounts: each is answered, and no stranger sees private words."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.extensions.http.serving import Served, served
from tests.servers import provider_wire as wire

SECRET = "violet-anchor-4711"
BATCHES, IN_A_BATCH = 200, 20
ANSWER_SECONDS = 20

_texts = st.text(max_size=40)
_words = st.sampled_from(
    ["main", "main/plain", "agent:main:main", "user", "assistant", "system", "tool", "developer", "hello", ""]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _words | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=8,
)
_part = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "input_text", "image_url", "input_image", "file", "refusal"])},
    optional={
        "text": _texts,
        "image_url": _json | st.just({"url": "data:image/png;base64,AAAA"}) | st.just("data:,x"),
    },
)
_message = st.fixed_dictionaries(
    {"role": _words, "content": _texts | st.lists(_part | _json, max_size=3) | _json}
)
_asked = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("main") | _words | _json,
        "messages": st.lists(_message, max_size=4) | _json,
        "input": _texts | st.lists(_message | _texts, max_size=3) | _json,
        "instructions": _texts | _json,
        "stream": st.booleans() | _json,
        "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}) | _json,
        "user": _words | _texts | _json,
        "conversation": _words | st.fixed_dictionaries({"id": _words}) | _json,
        "previous_response_id": _texts | st.just("resp_1_x") | _json,
        "max_tokens": st.integers() | _json,
        "encoding_format": st.sampled_from(["float", "base64"]) | _json,
        "dimensions": st.integers() | _json,
    },
)
_plain = st.builds(lambda text: {"model": "main", "messages": [{"role": "user", "content": text}]}, _texts)
_VIEWS = """chat login memory memory/note memory/changes memory/review sessions context chat/say
chat/turns/1 static/htmx.min.js static/../access.py memory/note?path=MEMORY.md memory/note?path=../nacre.json5
memory?q=safe&agent=main chat?session=agent:main:main ../workspace/MEMORY.md health metrics metrics/ v1
v1/chat/completions v1/responses v1/embeddings v1/models v1/models/main v1/models/..%2f..
/v1/models v1//models"""
_paths = st.sampled_from([f"/{view}" for view in ("", *_VIEWS.split())]) | st.builds(
    lambda text: "/v1/" + quote(text), _texts
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request; `who` names the token that it shows."""

    method: str
    path: str
    who: str
    headers: dict[str, str]
    body: bytes
    length: str | None


_bodies = (
    st.one_of(_plain, _asked, _asked, _json).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
    | _asked.map(lambda value: json.dumps(value).encode()[:-3])
    | st.lists(
        st.builds(
            lambda name, value: f"{name}={quote(value)}",
            st.sampled_from(["form_key", "text", "path", "to", "token", "session", "id", "verb", "read_as"]),
            _words | _texts | st.just("FORM_KEY") | st.just("MEMORY.md"),
        ),
        max_size=5,
    ).map(lambda fields: "&".join(fields).encode())
)
_who = st.sampled_from(["owner", "browser", "stranger", "nobody", "guess", "odd"])
_usual = st.builds(
    Asked,
    method=st.just("POST"),
    path=st.just("/v1/chat/completions"),
    who=_who,
    headers=st.sampled_from([{}, {"x-nacre-session": "main"}]),
    body=_plain.map(lambda value: json.dumps(value).encode()),
    length=st.none(),
) | st.builds(
    Asked,
    method=st.just("GET"),
    path=_paths,
    who=_who,
    headers=st.just({}),
    body=st.just(b""),
    length=st.none(),
)
_odd = st.builds(
    Asked,
    method=st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"]),
    path=_paths,
    who=_who,
    headers=st.fixed_dictionaries(
        {},
        optional={
            "host": st.sampled_from(["127.0.0.1", "localhost:1", "evil.example", "[::1]", "", "[", "a b"]),
            "origin": st.sampled_from(["null", "http://127.0.0.1:1", "https://evil.example", "http://["]),
            "cookie": st.sampled_from(["nacre=1", "=;=;", "a=\xff"]),
            "content-type": st.sampled_from(
                [
                    "application/json",
                    "application/x-www-form-urlencoded",
                    "multipart/form-data; boundary=b",
                    "x",
                ]
            ),
            "x-nacre-session": st.sampled_from(["main", "agent:main:main", "agent:other:main", "..", "a/b"]),
            "expect": st.just("100-continue"),
        },
    ),
    body=_bodies,
    length=st.sampled_from([None, None, None, None, None, None, "-1", "99999999999999", "x", "0"]),
)


def logged_in(server: Served) -> tuple[str, str]:
    """The cookie of a browser that showed the owner's token, and the key of its forms."""
    with httpx.Client(verify=False, base_url=server.url, follow_redirects=True) as browser:
        answer = browser.post("/login", data={"token": server.owner, "to": "/chat"})
        found = re.search(r'name="form_key" value="([^"]+)"', answer.text)
        assert found is not None
        return "; ".join(f"{name}={value}" for name, value in browser.cookies.items()), found[1]


async def answer_to(server: Served, asked: Asked, number: int, login: tuple[str, str]) -> bytes:
    """All that the server says before it hangs up. An address of its own has a rate of its own."""
    address, body = urlsplit(server.url), asked.body
    tokens = {"owner": server.owner, "stranger": server.stranger, "guess": "nacre_guess", "odd": "\xe9"}
    headers = {"host": "127.0.0.1", "connection": "close", **asked.headers}
    if asked.who == "browser":
        headers["cookie"], body = login[0], body.replace(b"FORM_KEY", login[1].encode())
    if asked.who in tokens:
        headers["authorization"] = f"Bearer {tokens[asked.who]}"
    headers["content-length"] = asked.length or str(len(body))
    lines = [
        f"{asked.method} {asked.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    local = (f"127.1.{number // 200 % 250}.{number % 200 + 1}", 0)
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(address.hostname, address.port, local_addr=local)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_odd_requests_are_answered_and_learn_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model says whether it saw private words, so that one in a stranger's prompt would show."""
    number, told = 0, set[str]()

    def tell(request: Any) -> wire.Step:
        return wire.reply(f"I saw {SECRET if SECRET in json.dumps(request) else 'nothing'}.")

    async def all_of(batch: list[Asked]) -> list[bytes]:
        asking = (answer_to(server, one, number + at, login) for at, one in enumerate(batch))
        return await asyncio.gather(*asking)

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served(tmp_path, responder=tell)) as server,
    ):
        (server.state / "workspace/MEMORY.md").write_text(f"The safe's word is {SECRET}.\n")
        login = logged_in(server)

        @settings(max_examples=BATCHES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(_usual | _odd | _odd, min_size=IN_A_BATCH, max_size=IN_A_BATCH))
        def each_is_answered(batch: list[Asked]) -> None:
            nonlocal number
            answers = asyncio.run(all_of(batch))
            number += len(batch)
            for asked, answer in zip(batch, answers, strict=True):
                assert not answer.startswith(b"HTTP/1.1 500"), asked
                if SECRET.encode() in answer:
                    told.add(asked.who)

        with caplog.at_level(logging.ERROR):
            each_is_answered()
        assert told == {"owner", "browser"}
        known = Asked(method="GET", path="/health", who="nobody", headers={}, body=b"", length=None)
        assert asyncio.run(answer_to(server, known, number, login)).startswith(b"HTTP/1.1 200")
    assert number >= BATCHES * IN_A_BATCH
    assert [record.message for record in caplog.records if "failed" in record.message] == []
