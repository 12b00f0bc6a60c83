"""Signatures in the form of cosign, made with OpenSSL by a key of one's own: of images and charts
in a registry, of statements about them (DSSE envelopes), of files.

https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md and ATTESTATION_SPEC.md. There
is no transparency log: nothing of a release is told to a public service.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from oci_layout import Artifact
from plan import ReleaseError

PASSWORD = "DSLIDE_RELEASE_KEY_PASSWORD"
_SIGNATURE = "dev.cosignproject.cosign/signature"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
_ENVELOPE = "application/vnd.dsse.envelope.v1+json"


def _openssl(*arguments: object, content: bytes = b"") -> bytes:
    """Raises ReleaseError with what it said."""
    done = subprocess.run(["openssl", *map(str, arguments)], input=content, capture_output=True,
                          env={PASSWORD: "", **os.environ}, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise ReleaseError(f"openssl {arguments[0]}: {said[0] if said else done.returncode}")
    return done.stdout


def make_key(path: pathlib.Path) -> None:
    """A new private key, for its owner's eyes, encrypted where a password is set."""
    if path.exists():
        raise ReleaseError(f"{path} exists: a key is never overwritten")
    cipher = ["-aes256", "-pass", f"env:{PASSWORD}"] if os.environ.get(PASSWORD) else []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_openssl("genpkey", "-algorithm", "EC", "-pkeyopt",
                              "ec_paramgen_curve:P-256", *cipher))


def public_key(key: pathlib.Path) -> bytes:
    """As PEM. ReleaseError where there is no such key, or the password is another one."""
    return _openssl("pkey", "-in", key, "-passin", f"env:{PASSWORD}", "-pubout")


def sign(key: pathlib.Path, content: bytes) -> str:
    """ECDSA over SHA-256, in base64."""
    return base64.b64encode(_openssl("dgst", "-sha256", "-sign", key, "-passin", f"env:{PASSWORD}",
                                     content=content)).decode()


def check(public: pathlib.Path, content: bytes, signature: str) -> None:
    """ReleaseError where the key did not sign that."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(base64.b64decode(signature))
        file.flush()
        try:
            _openssl("dgst", "-sha256", "-verify", public, "-signature", file.name,
                     content=content)
        except ReleaseError as error:
            raise ReleaseError(f"not signed with the key of {public}, or changed since ({error})"
                               ) from error


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is signed: HOST/REPOSITORY and a digest."""

    name: str
    digest: str

    def tag(self, end: str) -> str:
        """Under which cosign looks for its signatures (sig) and statements (att)."""
        return f"{self.digest.replace(':', '-')}.{end}"


def signature_of(key: pathlib.Path, subject: Subject) -> Artifact:
    payload = json.dumps({
        "critical": {"identity": {"docker-reference": subject.name},
                     "image": {"docker-manifest-digest": subject.digest},
                     "type": "cosign container image signature"},
        "optional": None}).encode()
    return Artifact(payload, _SIMPLE, {_SIGNATURE: sign(key, payload)})


def check_signature(public: pathlib.Path, subject: Subject, found: Artifact) -> None:
    check(public, found.content, found.annotations.get(_SIGNATURE, ""))
    signed = json.loads(found.content)["critical"]
    if signed["image"]["docker-manifest-digest"] != subject.digest:
        raise ReleaseError(f"{subject.name}: the signature is of another digest than "
                           f"{subject.digest}")


def _encoding(payload: bytes) -> bytes:
    """What of an envelope is signed."""
    return b"DSSEv1 %d %s %d %s" % (
        len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(payload), payload)


def statement_of(key: pathlib.Path, subject: Subject, kind: str, predicate: Mapping[str, Any]
                 ) -> Artifact:
    """kind: the URI of the predicate's type."""
    payload = json.dumps({
        "_type": "https://in-toto.io/Statement/v0.1", "predicateType": kind,
        "subject": [{"name": subject.name,
                     "digest": {"sha256": subject.digest.partition(":")[2]}}],
        "predicate": predicate}).encode()
    envelope = json.dumps({
        "payloadType": _PAYLOAD_TYPE, "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": "", "sig": sign(key, _encoding(payload))}]}).encode()
    return Artifact(envelope, _ENVELOPE, {_SIGNATURE: "", "predicateType": kind})


def check_statement(public: pathlib.Path, subject: Subject, found: Artifact) -> tuple[str, Any]:
    """The kind and the predicate of what was stated of the subject."""
    envelope = json.loads(found.content)
    payload = base64.b64decode(envelope["payload"])
    check(public, _encoding(payload), envelope["signatures"][0]["sig"])
    stated = json.loads(payload)
    of = [one["digest"].get("sha256") for one in stated["subject"]]
    if of != [subject.digest.partition(":")[2]]:
        raise ReleaseError(f"{subject.name}: a statement is of another digest than "
                           f"{subject.digest}")
    return stated["predicateType"], stated["predicate"]
