"""A Kerberos realm for tests: MIT's KDC as an ordinary process on a loopback port, its database, keytabs and krb5.conf
in a directory of their own."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping

from support.ports import free_port
from support.requirements import require
from support.waiting import PATIENCE_S

REALM = "EXAMPLE.TEST"
PASSWORD = "kerberos-canary"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


class Realm:
    """`start` it; `environ` is for processes that use it, `keytab` makes a principal with a keytab."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.config = home / "krb5.conf"
        self._port = free_port()

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a process in this realm; its default ticket cache is not that of the user."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.home / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.home / 'no-cache'}",
            "KRB5RCACHENAME": f"file2:{self.home / 'replays'}",
        }

    def start(self) -> None:
        """Makes the database and starts the KDC; needs the Debian packages krb5-kdc, krb5-admin-server, krb5-user."""
        for tool in _TOOLS:
            if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
                require(f"{tool} is not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)")
        self._write_files()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", PASSWORD)
        with (self.home / "kdc.out").open("ab") as log:
            self._process = subprocess.Popen([_path("krb5kdc"), "-n"], env=self._environ(), stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, (self.home / "kdc.out").read_text()
                time.sleep(0.05)
        raise AssertionError("the KDC did not start")

    def _write_files(self) -> None:
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n forwardable = true\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (self.home / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self._port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {self.home}/principal\n  key_stash_file = {self.home}/stash\n"
            f"  acl_file = {self.home}/acl\n  max_life = 1h\n }}\n"
            f"[logging]\n kdc = FILE:{self.home}/kdc.log\n"
        )

    def stop(self) -> None:
        """Ends the KDC."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None

    def keytab(self, *principals: str, name: str = "") -> pathlib.Path:
        """A keytab with new principals of the realm, in the file `name`, by default that of the first principal."""
        path = self.home / f"{name or principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def change_keys(self, principal: str) -> None:
        """Gives a principal new keys: those of older keytabs are no longer valid."""
        self._run("kadmin.local", "-r", REALM, "cpw", "-randkey", principal)

    def ticket_cache(self, principal: str, keytab: pathlib.Path, name: str, lifetime: str = "10m") -> pathlib.Path:
        """A ticket cache made by kinit."""
        cache = self.home / name
        self._run("kinit", "-c", str(cache), "-l", lifetime, "-k", "-t", str(keytab), principal)
        return cache

    def _environ(self) -> Mapping[str, str]:
        return {**os.environ, **self.environ}

    def _run(self, tool: str, *args: str) -> None:
        done = subprocess.run([_path(tool), *args], env=self._environ(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _path(tool: str) -> str:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin") or tool


def login(keytab: pathlib.Path, principal: str) -> str:
    """The sasl.jaas.config of a principal with a keytab, of clients and brokers, for Java too."""
    return (
        f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}";'
    )
