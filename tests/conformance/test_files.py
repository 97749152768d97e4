"""What every store of job files promises, held against S3 (moto) and the in-memory twin; then how S3's own failures
are told apart, from a server on the loopback that really answers them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from shared.adapters import files as adapter
from shared.adapters.files import S3Files
from shared.adapters.links import S3Links
from shared.adapters.memory_files import MemoryFiles
from shared.domain.run import Files, StoredFile
from shared.errors import DeterministicFailure, EnvironmentalFailure, LeaseLost, TransientFailure

BUCKET = "holdfast-test-files"
SIGNED = {"signature_version": "s3v4", "s3": {"addressing_style": "virtual"}}


def s3_client(endpoint_url: str | None = None, **options: Any) -> Any:
    return boto3.client(
        "s3",
        region_name="eu-central-1",
        endpoint_url=endpoint_url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=1, **(SIGNED | options)),
    )


@pytest.fixture
def bucket() -> Iterator[Any]:
    with mock_aws():
        client = s3_client()
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        yield client


@pytest.fixture(params=["memory", "s3"])
def files(request: pytest.FixtureRequest) -> Files:
    return MemoryFiles() if request.param == "memory" else S3Files(request.getfixturevalue("bucket"), BUCKET)


@pytest.mark.parametrize("data", [b"", b"plain", bytes(range(256)) * 1000], ids=["empty", "text", "binary"])
def test_what_was_written_is_read_back(files: Files, data: bytes) -> None:
    files.write("exports/acme-eu/2026-05/a.bin", data, "application/octet-stream")

    assert files.read("exports/acme-eu/2026-05/a.bin") == data


def test_writing_tells_where_the_file_is_and_how_large(files: Files) -> None:
    stored = files.write("exports/a.pdf", b"12345", "application/pdf")

    assert stored == StoredFile("exports/a.pdf", 5, "application/pdf", stored.version)
    assert stored.version


@dataclass(frozen=True)
class Versions:
    """What a link to a version shows, asked of the store itself."""

    bucket: Any = None

    def of(self, files: Files, stored: StoredFile) -> bytes:
        if isinstance(files, MemoryFiles):
            return files.read_version(stored.key, stored.version)
        answer = self.bucket.get_object(Bucket=BUCKET, Key=stored.key, VersionId=stored.version)
        return bytes(answer["Body"].read())


@pytest.fixture
def versions(request: pytest.FixtureRequest, files: Files) -> Versions:
    return Versions(None if isinstance(files, MemoryFiles) else request.getfixturevalue("bucket"))


def test_a_file_that_was_written_over_is_still_there_under_its_version(files: Files, versions: Versions) -> None:
    first = files.write("exports/a.pdf", b"May, as it was", "application/pdf")
    second = files.write("exports/a.pdf", b"May, corrected", "application/pdf")

    assert versions.of(files, first) == b"May, as it was"
    assert versions.of(files, second) == files.read("exports/a.pdf") == b"May, corrected"


LARGE = bytes(range(256)) * 4 * 1024 * 20  # 20 MiB: two pieces and a rest


@pytest.mark.parametrize("data", [b"", b"plain", LARGE], ids=["empty", "small", "large"])
def test_what_was_written_piece_by_piece_is_one_file(files: Files, versions: Versions, data: bytes) -> None:
    with files.writing("exports/a.pdf", "application/pdf") as sink:
        for at in range(0, len(data), 1_000_000):
            sink.write(data[at : at + 1_000_000])

    assert sink.stored == StoredFile("exports/a.pdf", len(data), "application/pdf", sink.stored.version)
    assert versions.of(files, sink.stored) == data


@pytest.mark.parametrize("data", [b"plain", LARGE], ids=["small", "large"])
def test_a_block_that_raises_stores_nothing_and_leaves_the_old_file(files: Files, data: bytes) -> None:
    files.write("exports/a.pdf", b"old", "application/pdf")

    with pytest.raises(LeaseLost):
        write_piecewise(files, "exports/a.pdf", data, then=LeaseLost("job_1", "renew", None))

    assert files.read("exports/a.pdf") == b"old"


def test_an_upload_that_failed_leaves_no_pieces_behind(bucket: Any) -> None:
    with pytest.raises(LeaseLost):
        write_piecewise(S3Files(bucket, BUCKET), "a", LARGE, then=LeaseLost("job_1", "renew", None))

    assert "Uploads" not in bucket.list_multipart_uploads(Bucket=BUCKET)


def test_a_large_file_keeps_its_media_type(bucket: Any) -> None:
    with S3Files(bucket, BUCKET).writing("a", "application/pdf") as sink:
        sink.write(LARGE)

    assert bucket.head_object(Bucket=BUCKET, Key="a")["ContentType"] == "application/pdf"


@pytest.mark.parametrize("start", [0, 1, 70_000, 199_999])
def test_a_file_is_read_from_any_byte_in_small_pieces(files: Files, start: int) -> None:
    data = bytes(range(250)) * 800
    files.write("a", data, "text/csv")

    with files.reading("a", start) as found:
        pieces = list(found)

    assert b"".join(pieces) == data[start:]
    assert max(map(len, pieces)) <= 64 * 1024
    assert found.size == len(data)


def test_a_file_that_changed_is_told_from_the_one_that_was_begun(files: Files) -> None:
    files.write("a", b"first", "text/csv")
    with files.reading("a") as first:
        pass
    with files.reading("a", 2, first.tag) as again:
        assert b"".join(again) == b"rst"
    files.write("a", b"other", "text/csv")

    with pytest.raises(TransientFailure, match="a was changed") as raised, files.reading("a", 2, first.tag):
        pass
    assert raised.value.code == "file-changed"


def test_a_missing_file_is_named_before_anything_is_read(files: Files) -> None:
    with pytest.raises(DeterministicFailure, match="is missing") as raised, files.reading("a"):
        pass
    assert raised.value.code == "file-missing"


def test_a_repeated_write_leaves_one_file_with_the_later_content(files: Files) -> None:
    files.write("a", b"first, and longer", "text/plain")
    files.write("a", b"second", "text/plain")

    assert files.read("a") == b"second"


def test_a_missing_file_will_be_missing_again_and_is_named(files: Files) -> None:
    files.write("invoices/acme-eu/2026-04.csv", b"x", "text/csv")

    with pytest.raises(DeterministicFailure, match=r"invoices/acme-eu/2026-05\.csv is missing") as raised:
        files.read("invoices/acme-eu/2026-05.csv")

    assert raised.value.code == "file-missing"


def test_the_caller_cannot_change_a_stored_file_through_its_own_buffer(files: Files) -> None:
    buffer = bytearray(b"before")
    files.write("a", buffer, "text/plain")  # type: ignore[arg-type]
    buffer[:] = b"after!"

    assert files.read("a") == b"before"


def test_threads_that_write_side_by_side_keep_their_own_files() -> None:
    files = MemoryFiles()  # moto is not safe to share between threads

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: files.write(f"f{n}", b"%d" % n, "text/plain"), range(200)))

    assert [files.read(f"f{n}") for n in range(200)] == [b"%d" % n for n in range(200)]


def test_s3_keeps_the_media_type(bucket: Any) -> None:
    S3Files(bucket, BUCKET).write("exports/a.pdf", b"x", "application/pdf")

    assert bucket.head_object(Bucket=BUCKET, Key="exports/a.pdf")["ContentType"] == "application/pdf"


def test_a_file_too_large_for_the_worker_is_refused_before_it_is_read(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "MAX_READ_BYTES", 10)
    files = S3Files(bucket, BUCKET)
    files.write("small", b"x" * 10, "text/csv")
    files.write("large", b"x" * 11, "text/csv")

    assert files.read("small") == b"x" * 10
    with pytest.raises(DeterministicFailure, match="large: 11 bytes") as raised:
        files.read("large")
    assert raised.value.code == "file-too-large"


def test_a_bucket_that_does_not_exist_waits_for_an_operator(bucket: Any) -> None:
    with pytest.raises(EnvironmentalFailure, match="NoSuchBucket for the bucket of job files") as raised:
        S3Files(bucket, "elsewhere").read("a")

    assert raised.value.code == "s3-bucket-missing"


# What follows comes over a real socket, through the client's own parsing.

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def s3_answering(answer: Answer) -> Iterator[S3Files]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # answers the "Expect: 100-continue" of a PUT, which the client waits for

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        do_PUT = do_POST = do_DELETE = do_GET

        def end_headers(self) -> None:
            self.send_header("Connection", "close")  # said aloud, or the client's next call may meet a closing socket
            super().end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    client = s3_client(f"http://127.0.0.1:{server.server_port}")
    try:
        yield S3Files(client, BUCKET)
    finally:
        client.close()
        server.shutdown()
        server.server_close()
        thread.join()


def read_piecewise(files: Files, key: str) -> bytes:
    with files.reading(key) as found:
        return b"".join(found)


def write_piecewise(files: Files, key: str, data: bytes, then: Exception | None = None) -> None:
    with files.writing(key, "text/csv") as sink:
        sink.write(data)
        if then is not None:
            raise then


def refusing(status: int, code: str, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = f"<Error><Code>{code}</Code><Message>said so</Message></Error>".encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, "SlowDown"), (503, "ServiceUnavailable"), (429, "TooManyRequests"), (400, "RequestLimitExceeded")],
)
def test_a_throttled_call_is_worth_another_try(status: int, code: str) -> None:
    with s3_answering(refusing(status, code)) as files:
        for call in (
            lambda: files.read("a.csv"),
            lambda: files.write("a.csv", b"x", "text/csv"),
            lambda: write_piecewise(files, "a.csv", b"x"),
            lambda: write_piecewise(files, "a.csv", LARGE),
        ):
            with pytest.raises(TransientFailure, match=rf"ing a\.csv: S3 answered {status} {code}") as raised:
                call()

            assert raised.value.code == "s3-throttled"
            assert raised.value.retry_after is None


def test_the_wait_that_s3_asks_for_is_passed_on() -> None:
    with s3_answering(refusing(503, "SlowDown", Retry_After="7")) as files, pytest.raises(TransientFailure) as raised:
        files.read("a.csv")

    assert raised.value.retry_after == timedelta(seconds=7)


def test_a_wait_that_cannot_be_read_is_left_to_the_backoff() -> None:
    with (
        s3_answering(refusing(503, "SlowDown", Retry_After="soon")) as files,
        pytest.raises(TransientFailure) as raised,
    ):
        files.read("a.csv")

    assert raised.value.retry_after is None


def test_a_date_is_a_wait_too() -> None:
    at = datetime.now(UTC) + timedelta(seconds=90)
    date = at.strftime("%a %b %d %H:%M:%S %Y")
    with s3_answering(refusing(503, "SlowDown", Retry_After=date)) as files, pytest.raises(TransientFailure) as raised:
        files.read("a.csv")

    assert timedelta(seconds=60) < (raised.value.retry_after or timedelta()) <= timedelta(seconds=90)


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (400, "RequestTimeout"), (400, "ExpiredToken")])
def test_an_outage_is_worth_another_try(status: int, code: str) -> None:
    with s3_answering(refusing(status, code)) as files, pytest.raises(TransientFailure) as raised:
        files.read("a.csv")

    assert raised.value.code == "s3-unreachable"


def test_a_key_that_s3_never_takes_is_not_tried_again() -> None:
    with s3_answering(refusing(400, "KeyTooLongError")) as files:
        for call in (lambda: files.write("k" * 1025, b"x", "text/plain"), lambda: files.read("")):
            with pytest.raises(DeterministicFailure) as raised:
                call()

            assert raised.value.code == "s3-refused"


def test_a_lost_permission_waits_for_an_operator_and_says_what_else_it_may_be() -> None:
    said = r"reading a\.csv.*ListBucket"
    with (
        s3_answering(refusing(403, "AccessDenied")) as files,
        pytest.raises(EnvironmentalFailure, match=said) as raised,
    ):
        files.read("a.csv")

    assert raised.value.code == "s3-denied"


def denied_but_listing(*keys: str) -> Answer:
    """S3 to a role that lists under its prefixes alone: 403 for a file that is not there, and the names if asked."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = parse_qs(urlsplit(handler.path).query)
        if "prefix" not in asked:
            return refusing(403, "AccessDenied")(handler)
        found = [key for key in sorted(keys) if key.startswith(asked["prefix"][0])][: int(asked["max-keys"][0])]
        names = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in found)
        body = f"<ListBucketResult>{names}</ListBucketResult>".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return None

    return answer


@pytest.mark.parametrize("read", [S3Files.read, read_piecewise])
def test_a_missing_file_and_a_lost_right_are_told_apart_although_s3_answers_both_with_a_403(read: Any) -> None:
    for present, failure, code in (
        (("invoices/a/1.csv.old", "invoices/a/2.csv"), DeterministicFailure, "file-missing"),
        ((), DeterministicFailure, "file-missing"),
        (("invoices/a/1.csv",), EnvironmentalFailure, "s3-denied"),
    ):
        with s3_answering(denied_but_listing(*present)) as files, pytest.raises(failure) as raised:
            read(files, "invoices/a/1.csv")
        assert raised.value.code == code


def test_an_answer_cut_off_in_the_middle_is_not_taken_for_the_file() -> None:
    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.send_header("ETag", '"e"')
        handler.end_headers()
        handler.wfile.write(b"x" * 500)

    with s3_answering(half) as files:
        for call in (lambda: files.read("a.csv"), lambda: read_piecewise(files, "a.csv")):
            with pytest.raises(TransientFailure, match=r"a\.csv") as raised:
                call()

            assert raised.value.code == "s3-unreachable"


def test_no_answer_in_time_is_worth_another_try() -> None:
    silent = threading.Event()
    with s3_answering(lambda _: (silent.wait(5), None)[1]) as files:
        with pytest.raises(TransientFailure) as raised:
            files.read("a.csv")
        silent.set()

    assert raised.value.code == "s3-unreachable"


def test_a_refused_connection_is_worth_another_try() -> None:
    with socket.socket() as closed:  # bound and never listening
        closed.bind(("127.0.0.1", 0))
        client = s3_client(f"http://127.0.0.1:{closed.getsockname()[1]}")

        with pytest.raises(TransientFailure, match=r"reading a\.csv: S3 did not answer") as raised:
            S3Files(client, BUCKET).read("a.csv")

    assert raised.value.code == "s3-unreachable"


# Links


def test_a_link_is_signed_with_sigv4_and_expires_as_asked() -> None:
    key = "exports/acme-eu/2026-05/invoice-export.pdf"
    link = urlsplit(S3Links(s3_client(), BUCKET).link(key, timedelta(minutes=5)))
    query = parse_qs(link.query)

    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["X-Amz-Expires"] == ["300"]
    assert "/eu-central-1/s3/aws4_request" in query["X-Amz-Credential"][0]
    assert link.scheme == "https"
    assert link.netloc == f"{BUCKET}.s3.eu-central-1.amazonaws.com"
    assert link.path == f"/{key}"
    assert query["response-content-disposition"] == ['attachment; filename="acme-eu-2026-05-invoice-export.pdf"']


def test_a_link_into_a_local_cloud_names_its_address_and_the_bucket_in_the_path() -> None:
    link = urlsplit(S3Links(s3_client("http://127.0.0.1:4566"), BUCKET).link("exports/a.pdf", timedelta(minutes=5)))

    assert (link.scheme, link.netloc, link.path) == ("http", "127.0.0.1:4566", f"/{BUCKET}/exports/a.pdf")


@pytest.mark.parametrize(
    ("key", "name"),
    [("top.pdf", "top.pdf"), ('exports/x"; evil=\r\n/é.pdf', "x___evil___-_.pdf")],
)
def test_a_download_name_cannot_break_out_of_its_header(key: str, name: str) -> None:
    query = parse_qs(urlsplit(S3Links(s3_client(), BUCKET).link(key, timedelta(minutes=5))).query)

    assert query["response-content-disposition"] == [f'attachment; filename="{name}"']


def test_a_link_to_a_version_shows_that_file_and_no_later_one() -> None:
    query = parse_qs(urlsplit(S3Links(s3_client(), BUCKET).link("exports/a.pdf", timedelta(minutes=5), "v7")).query)

    assert query["versionId"] == ["v7"]


def test_a_client_that_would_sign_the_old_way_is_refused() -> None:
    with pytest.raises(ValueError, match="signature_version='s3v4'"):
        S3Links(s3_client(signature_version="s3"), BUCKET).link("a", timedelta(minutes=5))


@pytest.mark.parametrize("lifetime", [timedelta(), timedelta(seconds=-1), timedelta(days=7, seconds=1)])
def test_a_lifetime_that_aws_would_refuse_makes_no_link(lifetime: timedelta) -> None:
    with pytest.raises(ValueError, match="1 second to 7 days"):
        S3Links(s3_client(), BUCKET).link("a", lifetime)
