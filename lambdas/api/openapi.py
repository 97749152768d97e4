"""The contract, OpenAPI 3.1, made from the models that read and write the bodies: it cannot drift from them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from lambdas.api.answers import AcceptedView, JobView, Problem
from lambdas.api.gateway import encode_json
from lambdas.api.identity import Identity
from lambdas.api.json_rules import PROSE, Schema, any_json, as_the_door_reads
from lambdas.api.paths import OPERATIONS, RESPONSE_HEADERS, SECURITY
from lambdas.api.problems import KINDS
from lambdas.api.submissions import JobSubmission
from shared.jobs import Catalogue, JobType
from shared.jobs.invoice_export import InvoiceExport

_ANSWERS: dict[str, type[BaseModel]] = {"AcceptedJob": AcceptedView, "Job": JobView, "Problem": Problem}
_REF = "#/components/schemas/"


@lru_cache(maxsize=1)
def contract(catalogue: Catalogue, identity: Identity) -> bytes:
    """The document as JSON, built at the first request of an environment: it imports every job type. Where callers are
    tenants it shows what a tenant may submit, and the tenant that a token says as a field to leave out.
    """
    auth, tenants = identity.auth, identity.callers_are_tenants
    shown = [job_type for job_type in catalogue.all().values() if job_type.open_to_tenants or not tenants]
    schemas: Schema = {}
    types = {job_type.name: _submission(job_type, schemas, tenants) for job_type in shown}
    schemas["JobSubmission"] = _one_of(types)
    export = _collected(InvoiceExport, "ExportSubmission", schemas)
    schemas["ExportSubmission"] = _by_token(export, "tenantId") if tenants else export
    for name, model in _ANSWERS.items():
        schemas[name] = _never_null(_collected(model, name, schemas, mode="serialization"))
    schemas["Problem"]["properties"]["type"]["enum"] = [kind.uri for kind in KINDS]
    return encode_json(
        {
            "openapi": "3.1.0",
            "info": {"title": "Holdfast", "version": "1", "description": _ABOUT},
            "servers": [{"url": "/"}],
            "paths": OPERATIONS,
            "components": {
                "schemas": schemas,
                "headers": RESPONSE_HEADERS,
                "securitySchemes": {auth: SECURITY[auth]} if auth in SECURITY else {},
            },
            "security": [{auth: []}] if auth in SECURITY else [],
        }
    )


_ABOUT = (
    "Jobs that are never lost, never silently doubled, always explainable. A 202 means that the job is stored. "
    "Send an Idempotency-Key with every POST: then any request whose answer was lost can be sent again. " + PROSE
)


def _submission(job_type: JobType, schemas: Schema, tenants: bool) -> str:
    """Adds what submits a job of this type; returns its name among the schemas."""
    name = job_type.name
    payload = _collected(job_type.payload, f"{name}.payload", schemas)
    if tenants and job_type.tenant_field is not None:
        payload = _by_token(payload, job_type.tenant_field)
    schemas[f"{name}.payload"] = payload | {"title": f"Payload of {name}, version {job_type.version}"}
    schema = _collected(JobSubmission, f"{name}.job", schemas)
    schema["properties"] |= {"type": {"const": name}, "payload": {"$ref": f"{_REF}{name}.payload"}}
    if not job_type.queue.fifo:
        schema["properties"]["orderingKey"] = {"type": "null", "description": "This queue keeps no order."}
    schemas[f"{name}.job"] = schema | {"title": f"Job of type {name}", "description": f"Queue {job_type.queue.name}."}
    return f"{name}.job"


def _by_token(schema: Schema, field: str) -> Schema:
    """The schema without the need to say what the token says."""
    said = {"description": "Your token says it; another one is refused (403)."}
    properties = schema["properties"] | {field: schema["properties"][field] | said}
    return schema | {"properties": properties, "required": [name for name in schema["required"] if name != field]}


def _one_of(types: dict[str, str]) -> Schema:
    if not types:
        return {"not": {}, "description": "No job type is declared."}
    refs = {name: _REF + schema for name, schema in types.items()}
    chooser = {"propertyName": "type", "mapping": refs}
    return {"oneOf": [{"$ref": ref} for ref in refs.values()], "discriminator": chooser}


def _collected(model: type[BaseModel], prefix: str, schemas: Schema, mode: Any = "validation") -> Schema:
    """The model's schema; models within it are added under its own prefix, since two job types may use one name."""
    schema = model.model_json_schema(mode=mode, ref_template=f"{_REF}{prefix}.{{model}}")
    within = {f"{prefix}.{name}": found for name, found in schema.pop("$defs", {}).items()}
    if mode == "serialization":
        schemas |= {name: _never_null(found) for name, found in within.items()}
        return schema
    # Pydantic's own JsonValue has no rules at all.
    schemas |= {name: as_the_door_reads(found) if found else any_json(_REF + name) for name, found in within.items()}
    described: Schema = as_the_door_reads(_spelled(model, schema))
    return described


def _spelled(model: type[BaseModel], schema: Schema) -> Schema:
    """Docstrings speak of fields as the code does, requests as JSON does."""
    for name, field in model.model_fields.items():
        schema["description"] = re.sub(rf"\b{name}\b", field.alias or name, schema.get("description", ""))
    return schema


def _never_null(schema: Schema) -> Schema:
    """What the API answers with is left out where it does not apply, never null."""
    for name, found in schema.get("properties", {}).items():
        if found.pop("default", ...) is None and "anyOf" in found:
            (kept,) = [option for option in found.pop("anyOf") if option != {"type": "null"}]
            schema["properties"][name] = kept | found
    return schema
