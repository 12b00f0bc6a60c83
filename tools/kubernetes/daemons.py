"""Programs that stay when we end, each with its log; network.kill_processes() ends them."""

from __future__ import annotations

import os
import pathlib
import subprocess

from addresses import PODS, inside


class Daemons:
    def __init__(self, programs: pathlib.Path, work: pathlib.Path) -> None:
        self.programs = programs
        self.work = work
        self.logs = work / "log"
        self.logs.mkdir(parents=True)
        self.environment = os.environ | {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}

    def start(self, name: str, namespace: str, program: str, *arguments: object) -> None:
        with open(self.logs / f"{name}.log", "ab") as log:  # a node may start more than once
            subprocess.Popen(
                inside(namespace, program, *arguments), cwd=self.work, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def start_proxy(self, name: str, namespace: str, login: pathlib.Path) -> None:
        """Makes the addresses of services work in a namespace."""
        settings = self.work / f"proxy-{name}.yaml"
        settings.write_text(f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: {PODS}
clientConnection: {{kubeconfig: {login}}}
conntrack: {{maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
hostnameOverride: {name}
""", encoding="ascii")
        self.start(f"proxy-{name}", namespace, "kube-proxy", "--config", settings)
