"""A loopback server for batch jobs, as OpenAI, Voyage and Gemini run them, beside ordinary embeddings.

A job needs `polls` looks before it ends. `outcomes` holds what becomes of the next jobs: `failed`, `expired`
(half of the results), `partial` (one text in three has an error), `missing` (the results have no file),
`unavailable` (404 at creation), `busy` (503 once, then the job is made), `stuck` (never ends), `gone` (nobody
knows the job), `foreign` (it is another account's). What `down` names cannot be had: an upload
hangs, questions are answered with 503.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any

from tests.extensions.providers.embedding.embedding_server import Answer, Asked, EmbeddingServer
from tests.servers import provider_wire as wire


@dataclass
class Job:
    """One job as the server keeps it."""

    name: str
    lines: list[dict[str, Any]]
    made_of: Mapping[str, Any]
    polls: int
    outcome: str
    cancelled: bool = False


@dataclass
class Seen:
    """What was asked for, for the test to count."""

    uploads: int = 0
    creations: int = 0
    downloads: int = 0
    most_at_once: int = 0
    cancelled: list[str] = field(default_factory=list)


class BatchServer(EmbeddingServer):
    """Use it with `with`, like the server that it is."""

    def __init__(self, *, polls: int = 1) -> None:
        super().__init__()
        self.polls = polls
        self.down = ""
        """`upload` (hangs), `state` or `results` (503): what cannot be asked for now."""
        self.outcomes: deque[str] = deque()
        self.seen = Seen()
        self.jobs: dict[str, Job] = {}
        self.polled = threading.Event()
        self._files: dict[str, bytes] = {}

    def route(self, asked: Asked, method: str, raw: bytes) -> Answer | None:
        """The answer to a request about jobs; `None` for an ordinary one."""
        path = asked.path.partition("?")[0]
        if self.down == "upload" and path.endswith("/files"):
            self.polled.set()
            return Answer({}, hangs=True)
        if method == "POST" and path.endswith("/files"):
            return self._upload(path, asked, raw)
        if method == "POST" and path.endswith(("/batches", ":asyncBatchEmbedContent")):
            return self._create(json.loads(raw))
        if method == "POST" and re.search(r"batches/[\w-]+[:/]cancel$", path):
            name = re.split(r"[:/]cancel$", path)[0].rpartition("/")[2]
            self.jobs[name].cancelled = True
            self.seen.cancelled.append(name)
            return Answer({})
        if method == "GET" and (found := re.search(r"batches/([\w-]+)$", path)):
            refused = {"gone": 404, "foreign": 403}.get(self.jobs[found[1]].outcome)
            if self.down == "state" or refused:
                return Answer({"error": {"message": "not this one"}}, refused or 503)
            return Answer(self._state(self.jobs[found[1]], gemini="v1beta" in path))
        if method == "GET" and (found := re.search(r"files/([\w-]+)(?:/content|:download)$", path)):
            if self.down == "results":
                return Answer({"error": {"message": "not now"}}, 503)
            self.seen.downloads += 1
            return Answer({}, raw=self._results(self.jobs[found[1].removeprefix("out-")]))
        return None

    def _upload(self, path: str, asked: Asked, raw: bytes) -> Answer:
        self.seen.uploads += 1
        head = b"content-type: " + asked.headers["content-type"].encode() + b"\r\n\r\n"
        parts = BytesParser().parsebytes(head + raw).get_payload()
        assert isinstance(parts, list)
        name = f"in-{self.seen.uploads}"
        body = parts[-1].get_payload(decode=True)
        assert isinstance(body, bytes)
        self._files[name] = body
        if path.startswith("/upload/v1beta"):
            return Answer({"file": {"name": f"files/{name}", "mimeType": "application/jsonl"}})
        return Answer({"id": name, "object": "file", "purpose": "batch"})

    def _create(self, body: Mapping[str, Any]) -> Answer:
        self.seen.creations += 1
        self.seen.most_at_once = max(self.seen.most_at_once, self.seen.creations - self.seen.downloads)
        outcome = self.outcomes.popleft() if self.outcomes else "done"
        if outcome == "unavailable":
            return Answer({"error": {"message": "no batches here"}}, 404)
        if outcome == "busy":
            return Answer({"error": {"message": "try again"}}, 503)
        file_id = body.get("input_file_id") or body["batch"]["inputConfig"]["fileName"].removeprefix("files/")
        lines = [json.loads(line) for line in self._files[file_id].splitlines()]
        job = Job(f"job-{self.seen.creations}", lines, body, self.polls, outcome)
        self.jobs[job.name] = job
        if "batch" in body:
            return Answer({"name": f"batches/{job.name}", "metadata": {"state": "BATCH_STATE_PENDING"}})
        return Answer({"id": job.name, "status": "validating"})

    def _state(self, job: Job, *, gemini: bool) -> dict[str, Any]:
        job.polls -= 1
        self.polled.set()
        running = (job.polls >= 0 or job.outcome == "stuck") and not job.cancelled
        file = None if running or job.outcome in ("failed", "missing", "stuck") else f"out-{job.name}"
        said = (
            {"message": "the file is not to our taste"} if job.outcome == "failed" and not running else None
        )
        done = 0 if running else len(job.lines)
        if gemini:
            return {
                "name": f"batches/{job.name}",
                "done": not running,
                "metadata": {
                    "state": f"BATCH_STATE_{_GEMINI[_word(job, running=running)]}",
                    "batchStats": {"requestCount": str(len(job.lines)), "successfulRequestCount": str(done)},
                },
                **({"response": {"responsesFile": f"files/{file}"}} if file else {}),
                **({"error": said} if said else {}),
            }
        return {
            "id": job.name,
            "status": _word(job, running=running),
            "request_counts": {"total": len(job.lines), "completed": done, "failed": 0},
            "errors": {"data": [said]} if said else None,
            "output_file_id": file,
        }

    def _results(self, job: Job) -> bytes:
        lines = job.lines[: len(job.lines) // 2] if job.outcome == "expired" else job.lines
        # results come in any order
        return b"".join(
            json.dumps(_result(line, bad=job.outcome == "partial" and at % 3 == 0)).encode() + b"\n"
            for at, line in reversed(list(enumerate(lines)))
        )


_GEMINI = {
    "in_progress": "RUNNING",
    "completed": "SUCCEEDED",
    "cancelled": "CANCELLED",
    "failed": "FAILED",
    "expired": "EXPIRED",
}


def _word(job: Job, *, running: bool) -> str:
    """OpenAI's word for where a job is."""
    if running:
        return "in_progress"
    if job.cancelled:
        return "cancelled"
    return job.outcome if job.outcome in ("failed", "expired") else "completed"


def _result(line: Mapping[str, Any], *, bad: bool) -> dict[str, Any]:
    if "key" in line:
        if bad:
            return {"key": line["key"], "error": {"message": "no"}}
        values = wire.embedding(line["request"]["content"]["parts"][0]["text"])
        return {"key": line["key"], "response": {"embedding": {"values": values}}}
    if bad:
        return {"custom_id": line["custom_id"], "response": {"status_code": 400, "body": {}}, "error": None}
    body = wire.embeddings(line["body"])
    return {
        "custom_id": line["custom_id"],
        "response": {"status_code": 200, "body": body},
        "error": None,
    }
