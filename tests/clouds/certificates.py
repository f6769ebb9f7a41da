"""Makes certificates for tests with the `openssl` command: authorities, and keys with certificates they have signed.

All files are PEM, as Kafka and its clients read them.
"""

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from lab.sandbox.errors import SandboxError

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
LOOPBACK: Final = ("DNS:localhost", "IP:127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The files of a certificate and its key, and one with both, the key first."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An authority that signs certificates; programs that trust it set `certificate`."""

    folder: Path
    certificate: Path
    key: Path

    @classmethod
    def new(cls, folder: Path, name: str = "authority") -> Self:
        """Make an authority, with its files in a separate folder."""
        own = folder / name
        own.mkdir()
        certificate, key = own / "authority.pem", own / "authority.key"
        openssl(
            *("req", "-x509", *_KEY, "-days", "7", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(key), "-out", str(certificate)),
        )
        return cls(folder=own, certificate=certificate, key=key)

    def issue(self, name: str, *, names: tuple[str, ...] = LOOPBACK, expired: bool = False) -> Certificate:
        """Make a key, and sign a certificate of this common name for it; an expired one ended yesterday."""
        base = self.folder / name
        request, extension = base.with_suffix(".csr"), base.with_suffix(".ext")
        certificate, key, both = base.with_suffix(".crt"), base.with_suffix(".key"), base.with_suffix(".pem")
        extension.write_text(f"subjectAltName={','.join(names)}\n", encoding="utf-8")
        openssl("req", "-new", *_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        # in version 3.0 only `openssl ca` can set an end date in the past
        end = datetime.now(UTC) + timedelta(days=-1 if expired else 7)
        config = base.with_suffix(".cnf")
        index = base.with_suffix(".index")
        index.write_text("", encoding="utf-8")
        config.write_text(_CONFIG.format(index=index, folder=self.folder), encoding="utf-8")
        openssl(
            *("ca", "-batch", "-notext", "-config", str(config)),
            *("-cert", str(self.certificate), "-keyfile", str(self.key), "-extfile", str(extension)),
            *("-startdate", _date(end - timedelta(days=30)), "-enddate", _date(end)),
            *("-in", str(request), "-out", str(certificate)),
        )
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return Certificate(certificate=certificate, key=key, both=both)


def locked(plain: Path, password: str) -> Path:
    """Write a file with the same key as a plain one, encrypted with the password; return the file."""
    key = plain.with_suffix(".locked.key")
    openssl(
        *("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", str(plain), "-out", str(key)),
        *("-passout", f"pass:{password}"),
    )
    return key


_CONFIG: Final = """[ca]
default_ca = default
[default]
database = {index}
new_certs_dir = {folder}
policy = policy
unique_subject = no
rand_serial = yes
default_md = sha256
[policy]
commonName = supplied
"""


def _date(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%SZ")


def openssl(*arguments: str, given: bytes = b"") -> bytes:
    """Run OpenSSL; return what it printed."""
    line = ["openssl", *arguments]
    done = subprocess.run(line, input=given, capture_output=True, check=False, timeout=30)
    if done.returncode != 0:
        raise SandboxError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
