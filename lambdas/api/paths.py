"""What each call takes and answers, for the contract. Paths and methods match routes.py; a test holds them together."""

from __future__ import annotations

from typing import Any

_SECONDS = {"type": "integer", "minimum": 1}
RESPONSE_HEADERS: dict[str, Any] = {
    "Location": {"description": "Where to look next.", "schema": {"type": "string", "format": "uri-reference"}},
    "IdempotentReplayed": {
        "description": "The Idempotency-Key had been accepted before; nothing was written now.",
        "schema": {"const": "true"},
    },
    "ETag": {"description": "Changes with every visible change.", "schema": {"type": "string"}},
    "RetryAfter": {"description": "Seconds to wait before asking again.", "schema": _SECONDS},
    "Allow": {"description": "The methods this resource takes.", "schema": {"type": "string"}},
}

SECURITY: dict[str, Any] = {
    "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "iam": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "AWS Signature Version 4"},
}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes a repeat safe: one key (and tenant) is one job, for as long as its record lives.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_JOB_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^job_[0-9A-HJKMNP-TV-Z]{26}$"},
}
_IF_NONE_MATCH = {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}


def _headers(*names: str) -> dict[str, Any]:
    spelled = {"IdempotentReplayed": "Idempotent-Replayed", "RetryAfter": "Retry-After"}
    return {spelled.get(name, name): {"$ref": f"#/components/headers/{name}"} for name in names}


def _answer(description: str, schema: str, *headers: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content, "headers": _headers(*headers)}


def _problem(description: str, *headers: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content, "headers": _headers(*headers)}


_ANYWHERE = {
    "403": _problem("The token names no tenant, or the body another one."),
    "500": _problem("A fault of the service; its log has the details."),
    "503": _problem("The job store does not answer; nothing is known to be stored.", "RetryAfter"),
}
_UNCHANGED = {"description": "As the caller has it already.", "headers": _headers("ETag", "RetryAfter")}


def _post(summary: str, operation_id: str, schema: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    answers = {
        "202": _answer("Stored; it will run.", "AcceptedJob", "Location", "IdempotentReplayed"),
        "400": _problem("The body is not JSON, or JSON that readers disagree about; or an unusable Idempotency-Key."),
        "413": _problem("The body or the payload is too large: store the data elsewhere and pass a pointer."),
        "415": _problem("The body is not sent as application/json in UTF-8."),
        "422": _problem("An unknown job type, invalid fields (each named), or a key that belongs to another request."),
        "429": _problem("The caller or its tenant has its fill for now; nothing is stored.", "RetryAfter"),
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "parameters": [_KEY],
        "requestBody": {"required": True, "content": body},
        "responses": answers | _ANYWHERE,
    }


def _get(summary: str, operation_id: str, parameters: list[Any], answers: dict[str, Any]) -> dict[str, Any]:
    return {"operationId": operation_id, "summary": summary, "parameters": parameters, "responses": answers}


_NOT_FOUND = {"404": _problem("The caller has no such job.")}

OPERATIONS: dict[str, Any] = {
    "/jobs": {"post": _post("Submit a job", "submitJob", "JobSubmission")},
    "/exports": {"post": _post("Request a month's invoices as a PDF", "requestExport", "ExportSubmission")},
    "/jobs/{id}": {
        "get": _get(
            "See a job",
            "getJob",
            [_JOB_ID, _IF_NONE_MATCH],
            {"200": _answer("The job.", "Job", "ETag", "RetryAfter"), "304": _UNCHANGED, **_NOT_FOUND, **_ANYWHERE},
        )
    },
    "/jobs/{id}/result": {
        "get": _get(
            "Follow a job to its result",
            "getResult",
            [_JOB_ID],
            {
                "303": {"description": "A link that works for five minutes.", "headers": _headers("Location")},
                "409": _problem("There is none: the detail says whether to wait.", "RetryAfter"),
                **_NOT_FOUND,
                **_ANYWHERE,
            },
        )
    },
    "/openapi.json": {
        "get": {
            "operationId": "getContract",
            "summary": "This document",
            "parameters": [_IF_NONE_MATCH],
            "responses": {
                "200": {
                    "description": "OpenAPI 3.1.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                    "headers": _headers("ETag"),
                },
                "304": {"description": "As the caller has it already.", "headers": _headers("ETag")},
            },
        }
    },
}
