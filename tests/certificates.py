"""A certificate for a host and the authority that signed it, as small as OpenSSL's strict mode lets them be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ONLY_CERTIFICATES = x509.KeyUsage(False, False, False, False, False, True, True, False, False)


def certify(host: str, folder: Path, valid_for: timedelta = timedelta(days=1)) -> tuple[Path, Path]:
    """(the host's key and certificate, the authority's certificate) as PEM files. A negative time: it ran out."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _builder("Test authority", "Test authority", authority_key, timedelta(days=1))
    authority = authority.add_extension(x509.BasicConstraints(True, 0), critical=True)
    authority = authority.add_extension(_ONLY_CERTIFICATES, critical=True)
    identified = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    leaf = _builder(host, "Test authority", key, valid_for).add_extension(identified, critical=False)
    leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    served, trusted = folder / "served.pem", folder / "trusted.pem"
    pem = serialization.Encoding.PEM
    plain = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    served.write_bytes(key.private_bytes(*plain) + leaf.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    trusted.write_bytes(authority.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    return served, trusted


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, valid_for: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + valid_for)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
