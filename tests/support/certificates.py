"""Certificates and stores for tests, made on the spot by openssl and the JDK's keytool."""

from __future__ import annotations

import datetime
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from support.requirements import require

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def run(*command: str | pathlib.Path) -> None:
    """Runs a tool that must succeed."""
    if shutil.which(str(command[0])) is None:
        require(f"{command[0]} is not installed")
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Authority:
    """A certificate authority in a directory; every file is named after its owner."""

    def __init__(self, directory: pathlib.Path, name: str = "ca") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.key, self.certificate = directory / f"{name}.key", directory / f"{name}.pem"
        subject = ("-subj", f"/CN={name}", "-days", "3650")
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # clients on Python 3.13 demand it
        run(
            "openssl", "req", "-x509", *CURVE, "-nodes", "-keyout", self.key, "-out", self.certificate, *subject, *usage
        )

    def issue(
        self, name: str, names: str = "", days: int = 3650, not_after: str = ""
    ) -> tuple[pathlib.Path, pathlib.Path]:
        """A key and a certificate in PEM; `names`: subjectAltName; `not_after`: an end in the past."""
        key, request, made = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.directory / f"{name}.ext"
        kind = f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n"
        extensions.write_text(f"{kind}authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        run("openssl", "req", *CURVE, "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        if not_after:
            self._issue_expired(name, request, made, not_after)
        else:
            issuer = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial")
            run(
                "openssl",
                "x509",
                "-req",
                "-in",
                request,
                *issuer,
                "-out",
                made,
                "-days",
                str(days),
                "-extfile",
                extensions,
            )
        return key, made

    def revocation_list(
        self, path: pathlib.Path, revoked: Sequence[pathlib.Path] = (), until: datetime.datetime | None = None
    ) -> pathlib.Path:
        """Write the authority's revocation list, in PEM, with these certificates."""
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        end = until or now + datetime.timedelta(days=1)
        begin = min(now, end) - datetime.timedelta(hours=1)
        # A newer list has a later date, and a date has seconds only: the number of certificates makes it unique.
        builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject).next_update(end)
        builder = builder.last_update(begin + datetime.timedelta(seconds=len(revoked)))
        for certificate in revoked:
            number = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(begin).build()
            builder = builder.add_revoked_certificate(entry)
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def _issue_expired(self, name: str, request: pathlib.Path, made: pathlib.Path, not_after: str) -> None:
        (self.directory / "index.txt").write_text("")
        (self.directory / "serial").write_text("1000\n")
        settings = self.directory / "authority.conf"
        settings.write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={self.directory}/index.txt\nserial={self.directory}/serial\n"
            f"new_certs_dir={self.directory}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
        )
        run(
            *("openssl", "ca", "-batch", "-config", settings, "-in", request, "-out", made, "-cert", self.certificate),
            *("-keyfile", self.key, "-startdate", "20190101000000Z", "-enddate", not_after, "-notext"),
            *("-extfile", self.directory / f"{name}.ext"),
        )


def pkcs12(key: pathlib.Path, certificate: pathlib.Path, path: pathlib.Path, password: str, *options: str) -> None:
    """Key and certificate in a PKCS #12 file, under the alias `own`."""
    run(
        *("openssl", "pkcs12", "-export", "-in", certificate, "-inkey", key, "-out", path, "-name", "own"),
        *("-passout", f"pass:{password}", *options),
    )


def keytool(*arguments: str | pathlib.Path) -> None:
    """The JDK's keytool."""
    run("keytool", "-J-XX:TieredStopAtLevel=1", *arguments)


def trust_store(path: pathlib.Path, kind: str, password: str, certificates: Sequence[pathlib.Path]) -> None:
    """A truststore of keytool's."""
    for number, certificate in enumerate(certificates):
        keytool(
            *("-importcert", "-noprompt", "-alias", f"ca{number}", "-file", certificate),
            *("-keystore", path, "-storepass", password, "-storetype", kind),
        )
