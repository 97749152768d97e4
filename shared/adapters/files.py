"""Job files in S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.adapters.s3_failures import DENIED, failure
from shared.domain.run import StoredFile
from shared.errors import DeterministicFailure, JobFailure

MAX_READ_BYTES = 256 * 1024 * 1024
"""A worker holds a file that it reads whole: a larger one would end the worker, and the jobs beside it."""

READ_PIECE = 64 * 1024
UPLOAD_PIECE = 8 * 1024 * 1024
"""Held per file being written. S3 takes 10,000 pieces, of 5 MiB at least but for the last."""


class S3Files:
    """shared.domain.run.Files in a bucket. `client` is a boto3 S3 client, safe to share between threads."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def read(self, key: str) -> bytes:
        """See Files. Also raises DeterministicFailure (code "file-too-large") above MAX_READ_BYTES."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            # Not `with answer["Body"]`: that enters the bare HTTP stream, whose errors are urllib3's and whose early
            # end goes unnoticed.
            with closing(answer["Body"]) as body:
                if answer["ContentLength"] > MAX_READ_BYTES:
                    raise DeterministicFailure(
                        f"{key}: {answer['ContentLength']} bytes, over the {MAX_READ_BYTES} a job may read whole",
                        code="file-too-large",
                    )
                return bytes(body.read())
        except (BotoCoreError, ClientError) as error:
            raise self._unread(key, error) from error

    def _unread(self, key: str, error: BotoCoreError | ClientError) -> JobFailure:
        found = failure("reading", key, error)
        missing = found.code == DENIED and self._is_missing(key)
        return DeterministicFailure(f"{key} is missing", code="file-missing") if missing else found

    def _is_missing(self, key: str) -> bool:
        """To a role that may list under its own prefixes only, S3 answers 403 for a missing file as for a lost right;
        asked for that one key it must say which.
        """
        with suppress(BotoCoreError, ClientError):
            listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
            return all(one["Key"] != key for one in listed.get("Contents", ()))
        return False

    @contextmanager
    def reading(self, key: str, start: int = 0, tag: str | None = None) -> Iterator[_Reading]:
        """See Files."""
        asked = {"Range": f"bytes={start}-"} if start else {}
        asked |= {"IfMatch": tag} if tag is not None else {}
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **asked)
        except (BotoCoreError, ClientError) as error:
            raise self._unread(key, error) from error
        with closing(answer["Body"]) as body:
            yield _Reading(key, body, start + answer["ContentLength"], answer["ETag"])

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """See Files. One PutObject: S3 shows the old object or the new one, never a part."""
        try:
            answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=content_type)
        except (BotoCoreError, ClientError) as error:
            raise failure("writing", key, error) from error
        return StoredFile(key, len(data), content_type, answer.get("VersionId"))

    @contextmanager
    def writing(self, key: str, content_type: str) -> Iterator[Any]:
        """See Files. A small file is one PutObject, a larger one a multipart upload: S3 shows it when it is whole."""
        sink = _Upload(self._client, self._bucket, key, content_type)
        try:
            yield sink
            sink.stored = sink.finish() if sink.begun else self.write(key, bytes(sink.held), content_type)
        except BaseException as error:
            sink.abandon()
            if isinstance(error, BotoCoreError | ClientError):
                raise failure("writing", key, error) from error
            raise


class _Reading:
    def __init__(self, key: str, body: Any, size: int, tag: str) -> None:
        self._key, self._body, self.size, self.tag = key, body, size, tag

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body.iter_chunks(READ_PIECE)
        except BotoCoreError as error:
            raise failure("reading", self._key, error) from error


class _Upload:
    """shared.domain.run.Writing, a piece at a time."""

    stored: StoredFile

    def __init__(self, client: Any, bucket: str, key: str, content_type: str) -> None:
        self._client, self._to, self._content_type = client, {"Bucket": bucket, "Key": key}, content_type
        self.held, self._sent, self._pieces = bytearray(), 0, list[dict[str, Any]]()

    @property
    def begun(self) -> bool:
        """Whether S3 knows of it."""
        return "UploadId" in self._to

    def write(self, data: bytes) -> None:
        """See Writing."""
        self.held += data
        if len(self.held) >= UPLOAD_PIECE:
            self._send()

    def finish(self) -> StoredFile:
        """Send what is held, and let S3 show the file."""
        if self.held:
            self._send()
        answer = self._client.complete_multipart_upload(**self._to, MultipartUpload={"Parts": self._pieces})
        return StoredFile(self._to["Key"], self._sent, self._content_type, answer.get("VersionId"))

    def abandon(self) -> None:
        """Let S3 forget what was sent; what it cannot forget now, the bucket's lifecycle does."""
        if self.begun:
            with suppress(BotoCoreError, ClientError):
                self._client.abort_multipart_upload(**self._to)

    def _send(self) -> None:
        if not self.begun:
            began = self._client.create_multipart_upload(**self._to, ContentType=self._content_type)
            self._to["UploadId"] = began["UploadId"]
        number = len(self._pieces) + 1
        answer = self._client.upload_part(**self._to, PartNumber=number, Body=bytes(self.held))
        self._pieces.append({"PartNumber": number, "ETag": answer["ETag"]})
        self._sent += len(self.held)
        self.held.clear()
