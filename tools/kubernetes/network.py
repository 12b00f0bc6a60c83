"""The network of the cluster: made, and taken down with every process in it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from addresses import CONTROL_ADDRESS, CONTROL_NAMESPACE, NodePlace, inside


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _ip_in(namespace: str, *arguments: str) -> None:
    subprocess.run(inside(namespace, "ip", *arguments), check=True)


def _forward(namespace: str) -> None:
    # /proc/sys/net is that of the network namespace of who opens it.
    subprocess.run(inside(namespace, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
                   check=True)


def _add_node(node: NodePlace) -> None:
    _ip("netns", "add", node.namespace)
    _ip_in(node.namespace, "link", "set", "lo", "up")
    _ip_in(CONTROL_NAMESPACE, "link", "add", node.cable, "type", "veth", "peer", "name", "eth0",
           "netns", node.namespace)
    _ip_in(CONTROL_NAMESPACE, "link", "set", node.cable, "master", "br0", "up")
    _ip_in(node.namespace, "addr", "add", f"{node.address}/24", "dev", "eth0")
    _ip_in(node.namespace, "link", "set", "eth0", "up")
    _ip_in(node.namespace, "route", "add", "default", "via", CONTROL_ADDRESS)
    _forward(node.namespace)
    _ip_in(CONTROL_NAMESPACE, "route", "add", node.pods, "via", node.address)


def make(nodes: Sequence[NodePlace]) -> None:
    _ip("netns", "add", CONTROL_NAMESPACE)
    _ip_in(CONTROL_NAMESPACE, "link", "set", "lo", "up")
    _ip_in(CONTROL_NAMESPACE, "link", "add", "br0", "type", "bridge")
    _ip_in(CONTROL_NAMESPACE, "addr", "add", f"{CONTROL_ADDRESS}/24", "dev", "br0")
    _ip_in(CONTROL_NAMESPACE, "link", "set", "br0", "up")
    # Addresses of services need some route; kube-proxy rewrites them.
    _ip_in(CONTROL_NAMESPACE, "route", "add", "198.18.0.0/15", "dev", "br0")
    _forward(CONTROL_NAMESPACE)
    for node in nodes:
        _add_node(node)
    for node in nodes:
        for other in nodes:
            if other != node:
                _ip_in(node.namespace, "route", "add", other.pods, "via", other.address)


def cut(node: NodePlace, is_cut: bool) -> None:
    """Takes the node's cable out, or puts it in again."""
    _ip_in(CONTROL_NAMESPACE, "link", "set", node.cable, "down" if is_cut else "up")


def part(nodes: Sequence[NodePlace], are_apart: bool) -> None:
    """Lets nothing pass between the nodes, or everything again; the control plane reaches all."""
    for node in nodes:
        subprocess.run(inside(CONTROL_NAMESPACE, "bridge", "link", "set", "dev", node.cable,
                              "isolated", "on" if are_apart else "off"), check=True)


def namespaces() -> list[str]:
    """Those of the cluster that there are."""
    listed = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]
    return [name for name in listed
            if name == CONTROL_NAMESPACE or name.startswith(f"{CONTROL_NAMESPACE}-")]


def processes(namespace: str) -> list[int]:
    return [int(word) for word in _ip("netns", "pids", namespace).split()]


def remove() -> None:
    """Those without processes."""
    for namespace in namespaces():
        _ip("netns", "delete", namespace)
