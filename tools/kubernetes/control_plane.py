"""The control plane: etcd, the API server, controllers, scheduler and DNS."""

from __future__ import annotations

import pathlib

from addresses import (
    API_SERVICE_ADDRESS,
    CONTROL_ADDRESS,
    CONTROL_NAMESPACE,
    REGISTRY,
    SERVICES,
    NodePlace,
)
from authority import Authority
from daemons import Daemons

ETCD = "http://127.0.0.1:2379"


def make_certificates(authority: Authority, nodes: list[NodePlace]) -> pathlib.Path:
    """For every part; the administrator's login."""
    authority.issue("apiserver", "/CN=kube-apiserver", f"IP:{CONTROL_ADDRESS}",
                    f"IP:{API_SERVICE_ADDRESS}", "DNS:kubernetes.default.svc")
    authority.issue("admin", "/O=system:masters/CN=admin", "DNS:admin")
    authority.issue("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client",
                    "DNS:apiserver")
    authority.issue("front-proxy", "/CN=front-proxy", "DNS:front-proxy")
    authority.issue("registry", f"/CN={REGISTRY}", f"DNS:{REGISTRY}", f"IP:{CONTROL_ADDRESS}")
    for node in nodes:
        authority.issue(node.name, f"/O=system:nodes/CN=system:node:{node.name}",
                        f"IP:{node.address}", f"DNS:{node.name}")
        authority.login(node.name)
    return authority.login("admin")


def resolver(work: pathlib.Path) -> pathlib.Path:
    """A resolv.conf with which the names of services are found."""
    return work / "resolv.conf"


def start_api(daemons: Daemons, authority: Authority) -> None:
    """What all others talk to."""
    here = CONTROL_NAMESPACE
    path = authority.path
    daemons.start("etcd", here, "etcd", "--data-dir", daemons.work / "etcd",
                  "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
                  "--listen-peer-urls", "http://127.0.0.1:2380",
                  "--unsafe-no-fsync")  # the cluster lives as long as the machine is up
    daemons.start(
        "kube-apiserver", here, "kube-apiserver", "--etcd-servers", ETCD,
        "--bind-address", CONTROL_ADDRESS, "--advertise-address", CONTROL_ADDRESS,
        "--secure-port", 6443, "--service-cluster-ip-range", SERVICES,
        "--tls-cert-file", path("apiserver.crt"), "--tls-private-key-file", path("apiserver.key"),
        "--client-ca-file", path("ca.crt"),
        "--kubelet-client-certificate", path("kubelet-client.crt"),
        "--kubelet-client-key", path("kubelet-client.key"),
        "--kubelet-certificate-authority", path("ca.crt"),
        "--kubelet-preferred-address-types", "InternalIP",
        "--service-account-issuer", "https://kubernetes.default.svc",
        "--service-account-key-file", path("accounts.pub"),
        "--service-account-signing-key-file", path("accounts.key"),
        "--authorization-mode", "Node,RBAC", "--allow-privileged=true",
        # For API servers of others, which ask on behalf of its clients.
        "--requestheader-client-ca-file", path("ca.crt"),
        "--requestheader-allowed-names", "front-proxy",
        "--requestheader-username-headers", "X-Remote-User",
        "--requestheader-group-headers", "X-Remote-Group",
        "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
        "--proxy-client-cert-file", path("front-proxy.crt"),
        "--proxy-client-key-file", path("front-proxy.key"))


def start_controllers(daemons: Daemons, authority: Authority, admin: pathlib.Path) -> None:
    """When the API server answers: some of them give up soon otherwise."""
    here = CONTROL_NAMESPACE
    path = authority.path
    daemons.start(
        "kube-controller-manager", here, "kube-controller-manager", "--kubeconfig", admin,
        "--leader-elect=false", "--use-service-account-credentials",
        "--service-account-private-key-file", path("accounts.key"),
        "--root-ca-file", path("ca.crt"), "--cluster-signing-cert-file", path("ca.crt"),
        "--cluster-signing-key-file", path("ca.key"))
    daemons.start("kube-scheduler", here, "kube-scheduler", "--kubeconfig", admin,
                  "--leader-elect=false")
    resolver(daemons.work).write_text(
        f"nameserver {CONTROL_ADDRESS}\nsearch cluster.local\noptions ndots:5\n", encoding="ascii")
    settings = daemons.work / "Corefile"
    settings.write_text(f""".:53 {{
  bind {CONTROL_ADDRESS}
  hosts {{
    {CONTROL_ADDRESS} {REGISTRY}
    fallthrough
  }}
  kubernetes cluster.local {{
    kubeconfig {admin} context
  }}
}}
""", encoding="ascii")
    daemons.start("coredns", here, "coredns", "-conf", settings)
    # The API server calls webhooks by the addresses of their services.
    daemons.start_proxy("control", here, admin)
