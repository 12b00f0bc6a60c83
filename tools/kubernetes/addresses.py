"""Where everything of the cluster is: names of network namespaces, addresses, folders.

No namespace has a way out: the control plane's has a bridge, each node's one end of a cable to it.
The addresses are of the range that is kept for measurements of networks.
"""

from __future__ import annotations

import dataclasses

CONTROL_NAMESPACE = "dslide-kubernetes"
CONTROL_ADDRESS = "198.18.255.254"
API_SERVER = f"https://{CONTROL_ADDRESS}:6443"
PODS = "198.18.0.0/16"
SERVICES = "198.19.0.0/24"
API_SERVICE_ADDRESS = "198.19.0.1"  # the first of SERVICES
MAX_NODES = 9
# What README.md calls the registry that has a release: in this network it is ours.
REGISTRY = "registry.example.com"


@dataclasses.dataclass(frozen=True)
class NodePlace:
    number: int  # from 1

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def zone(self) -> str:
        return f"zone-{self.number}"

    @property
    def namespace(self) -> str:
        return f"{CONTROL_NAMESPACE}-{self.number}"

    @property
    def cable(self) -> str:
        """The control plane's end."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"198.18.255.{self.number}"

    @property
    def pods(self) -> str:
        return f"198.18.{self.number}.0/24"

    @property
    def cgroup(self) -> str:
        return f"dslide-kubernetes-{self.number}"


def inside(namespace: str, *command: object) -> list[str]:
    """The command line that runs a command there. (`ip netns exec` hides /sys/fs/cgroup.)"""
    return ["nsenter", f"--net=/run/netns/{namespace}", *map(str, command)]
