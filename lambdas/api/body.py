"""From a request's bytes to a model: media type, size, strict JSON, then the fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lambdas.api.gateway import BodyNotReadable, Request
from lambdas.api.limits import MAX_BODY_BYTES
from lambdas.api.pointer import child, shown
from lambdas.api.problems import BAD_KEY, BAD_MEDIA_TYPE, BODY_TOO_LARGE, MALFORMED, Refused
from lambdas.api.strict_json import NotStrictJson, read_object
from shared.errors import Fault
from shared.jobs._in_words import in_words
from shared.jobs._whole import whole

_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_TOO_LARGE = f"a body may have {MAX_BODY_BYTES} bytes, this one has {{}}: store the data elsewhere, pass a pointer"

Model = TypeVar("Model", bound=BaseModel)


def idempotency_key(request: Request) -> str | None:
    """The key that makes a repeat safe, None where none was sent. Raises Refused (400)."""
    sent = request.headers.get("idempotency-key")
    if sent is None:
        return None
    key = sent.strip()
    if not _KEY.fullmatch(key):
        raise Refused(BAD_KEY, "header Idempotency-Key: send 1 to 255 printable ASCII characters, a UUID for example")
    return key


def read(request: Request) -> dict[str, Any]:
    """The JSON object of the body. Raises Refused (400, 413, 415)."""
    _check_media_type(request.headers)
    try:
        raw = request.body_bytes()
        if len(raw) > MAX_BODY_BYTES:
            raise Refused(BODY_TOO_LARGE, _TOO_LARGE.format(len(raw)))
        return read_object(raw)
    except BodyNotReadable as e:
        raise Refused(MALFORMED, str(e)) from e
    except NotStrictJson as e:
        raise Refused(MALFORMED, str(e), e.faults) from e


def fields(raw: Mapping[str, Any], model: type[Model]) -> tuple[Model | None, list[Fault]]:
    """The object as this model, or every field that is wrong."""
    try:
        # A payload stays as it was sent: its digits are part of what an Idempotency-Key names.
        return model.model_validate({name: whole(v) if isinstance(v, float) else v for name, v in raw.items()}), []
    except ValidationError as e:
        return None, [_fault(found, model) for found in e.errors(include_url=False, include_input=False)]


def _fault(found: Any, model: type[BaseModel]) -> Fault:
    pointer = ""
    for step in found["loc"]:
        # Pydantic marks a fault in a name, rather than in its value, by a last step "[key]".
        pointer = pointer if step == "[key]" else child(pointer, step)
    return Fault(pointer, in_words(found, model))


def _check_media_type(headers: Mapping[str, str]) -> None:
    sent = headers.get("content-type", "")
    media_type, *parameters = (part.strip().lower() for part in sent.split(";"))
    charsets = {p.partition("=")[2].strip('"') for p in parameters if p.startswith("charset=")}
    if media_type != "application/json" or charsets - {"utf-8", "utf8"}:
        found = repr(shown(sent)) if sent else "none"
        raise Refused(BAD_MEDIA_TYPE, f"send content-type: application/json, in UTF-8; found {found}")
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Refused(BAD_MEDIA_TYPE, "send the body as it is, without a content-encoding")
