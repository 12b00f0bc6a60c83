"""The cluster's certificates and the files with which its parts log in."""

from __future__ import annotations

import pathlib
import subprocess

from addresses import API_SERVER

DAYS = "30"
# Made in no time, on a busy machine too.
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(folder: pathlib.Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class Authority:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        _openssl(folder, "req", "-x509", *NEW_KEY, "-days", DAYS, "-subj", "/CN=kubernetes",
                 "-keyout", "ca.key", "-out", "ca.crt")
        _openssl(folder, "ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out",
                 "accounts.key")
        _openssl(folder, "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")

    def path(self, file: str) -> pathlib.Path:
        return self.folder / file

    def issue(self, name: str, subject: str, *alternatives: str) -> None:
        """NAME.crt and NAME.key, for clients and servers."""
        (self.folder / f"{name}.ext").write_text(
            f"subjectAltName={','.join(alternatives)}\nextendedKeyUsage=serverAuth,clientAuth\n",
            encoding="ascii")
        _openssl(self.folder, "req", *NEW_KEY, "-subj", subject, "-keyout", f"{name}.key",
                 "-out", f"{name}.csr")
        _openssl(self.folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey",
                 "ca.key", "-CAcreateserial", "-days", DAYS, "-out", f"{name}.crt", "-extfile",
                 f"{name}.ext")

    def login(self, name: str) -> pathlib.Path:
        """A kubeconfig with the certificate of that name."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(f"""apiVersion: v1
kind: Config
clusters:
  - name: cluster
    cluster:
      server: {API_SERVER}
      certificate-authority: {self.path("ca.crt")}
users:
  - name: user
    user:
      client-certificate: {self.path(f"{name}.crt")}
      client-key: {self.path(f"{name}.key")}
contexts:
  - name: context
    context: {{cluster: cluster, user: user}}
current-context: context
""", encoding="ascii")
        path.chmod(0o600)
        return path
