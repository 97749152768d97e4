"""botocore's service models, cut down to what the functions call: reading the whole of them is most of what it takes
to make a client. Cut from the pinned botocore when a bundle is made; shared/adapters/session.py reads them first.

Only left out: other operations, shapes that nothing left refers to, documentation. Every error of a service stays, so
that each code still finds its shape. The endpoint rules are whole, only unpacked: a rule is cheap, and cutting one
changes what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore import __version__
from botocore.loaders import Loader

OPERATIONS: Mapping[str, Collection[str]] = {
    "dynamodb": ("GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"),
    "sqs": (
        "ChangeMessageVisibilityBatch", "DeleteMessageBatch", "GetQueueUrl", "ReceiveMessage", "SendMessage",
        "SendMessageBatch",
    ),
    "s3": (
        "AbortMultipartUpload", "CompleteMultipartUpload", "CreateMultipartUpload", "GetObject", "ListObjectsV2",
        "PutObject", "UploadPart",
        "CreateSession", "HeadBucket",  # botocore's own, for directory buckets and where S3 names another region
    ),
}  # fmt: skip
"""What the adapters call. A test reads their code; one that is missing here would be no method of the client."""

MADE_FROM = f"botocore {__version__}"

Json = dict[str, Any]


def write_models(into: Path) -> None:
    """Lay out `into` as botocore lays out its data: endpoints.json, and for each service its model and its rules."""
    loader = Loader(include_default_search_paths=False, extra_search_paths=[Loader.BUILTIN_DATA_PATH])
    for service, operations in OPERATIONS.items():
        version = loader.determine_latest_version(service, "service-2")
        folder = into / service / version
        folder.mkdir(parents=True)
        # Through load_service_model, which merges botocore's own additions into the model.
        _write(folder / "service-2.json", small_model(loader.load_service_model(service, "service-2"), operations))
        _write(folder / "endpoint-rule-set-1.json", loader.load_service_model(service, "endpoint-rule-set-1"))
    _write(into / "endpoints.json", _endpoints(loader.load_data("endpoints")))


def small_model(model: Json, operations: Collection[str]) -> Json:
    """`model` (service-2) with these operations and no documentation. Raises KeyError for one that it has not."""
    kept = {name: _undocumented(model["operations"][name]) for name in operations}
    # Found by their mark, when a client is told to ask the service where it is.
    kept |= {name: _undocumented(of) for name, of in model["operations"].items() if of.get("endpointoperation")}
    for of in kept.values():
        of["errors"] = [_undocumented(error) for error in of.get("errors", ())]
    reached: set[str] = set()
    ahead = [name for of in kept.values() for name in _shapes_of(of)]
    ahead += [name for name, shape in model["shapes"].items() if shape.get("exception")]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [part["shape"] for part in _parts(model["shapes"][name])]
    shapes = {name: _plain_shape(shape) for name, shape in model["shapes"].items() if name in reached}
    left_out = {"operations", "shapes", "documentation", "examples"}
    return {
        **{key: value for key, value in model.items() if key not in left_out},
        "operations": kept,
        "shapes": shapes,
    }


def _shapes_of(operation: Json) -> Iterator[str]:
    for part in (operation.get("input"), operation.get("output"), *operation["errors"]):
        if part:
            yield part["shape"]


def _parts(shape: Json) -> list[Json]:
    """What a shape is made of: members of a structure, a list's member, a map's key and value."""
    return [*shape.get("members", {}).values(), *(shape[one] for one in ("member", "key", "value") if one in shape)]


def _plain_shape(shape: Json) -> Json:
    # Level by level: a member may itself be called "documentation".
    plain = _undocumented(shape)
    if "members" in shape:
        plain["members"] = {name: _undocumented(part) for name, part in shape["members"].items()}
    return plain | {one: _undocumented(shape[one]) for one in ("member", "key", "value") if one in shape}


def _undocumented(part: Json) -> Json:
    return {key: value for key, value in part.items() if key not in ("documentation", "documentationUrl")}


def _endpoints(whole: Json) -> Json:
    """Every partition and region, with these services only."""
    partitions = [
        {**one, "services": {name: of for name, of in one["services"].items() if name in OPERATIONS}}
        for one in whole["partitions"]
    ]
    return {**whole, "partitions": partitions}


def _write(file: Path, content: Json) -> None:
    file.write_text(json.dumps(content, separators=(",", ":")))
