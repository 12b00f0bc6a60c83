"""A node: containerd and kubelet in a network and a mount namespace of its own."""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import subprocess

import ending
import network
from addresses import CONTROL_ADDRESS, REGISTRY, NodePlace
from authority import Authority
from daemons import Daemons
from ending import CGROUPS

# In the mount namespace of a node. Sockets, whose paths have to be short, among it.
RUN = "/run/dslide-kubernetes"
CONTAINERD_SOCKET = f"{RUN}/containerd.sock"
PAUSE_IMAGE = "localhost/pause:1"
DISK_SIZE = 1 << 30
# Where kubelets write, whatever they are told; empty outside of nodes.
FIXED_FOLDERS = ("/var/lib/kubelet", "/var/log/containers")
# What a kubelet sets for the whole machine, which is not its own here: it is shown what it wants.
MACHINE_SETTINGS = {"vm/overcommit_memory": 1, "kernel/panic": 10, "kernel/panic_on_oops": 1,
                    "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}


def _containerd_settings(node: NodePlace, folder: pathlib.Path) -> str:
    return f"""version = 3
root = "{folder}/containerd"
state = "{RUN}/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins.'io.containerd.internal.v1.opt']
  path = "{RUN}/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE_IMAGE}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{folder}/registries"
[plugins.'io.containerd.cri.v1.runtime']
  netns_mounts_under_state_dir = true
  # Neither is permitted inside a container, where this may run.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{folder}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "/usr/sbin/runc"
"""


def _write_registries(folder: pathlib.Path, authority: Authority) -> None:
    """Where images are pulled from: the registry of this network alone, if it has one."""
    place = folder / "registries" / REGISTRY
    place.mkdir(parents=True)
    (place / "hosts.toml").write_text(
        f'''server = "https://{CONTROL_ADDRESS}"
ca = "{authority.path("ca.crt")}"
''', encoding="ascii")


def _pod_network(node: NodePlace, folder: pathlib.Path) -> str:
    return f"""{{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{node.pods}"}}]],
            "routes": [{{"dst": "0.0.0.0/0"}}], "dataDir": "{folder}/ipam"}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
"""


def _kubelet_settings(node: NodePlace, folder: pathlib.Path, authority: Authority,
                      resolver: pathlib.Path) -> str:
    return f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{node.cgroup}
featureGates: {{KubeletInUserNamespace: true}}
containerRuntimeEndpoint: unix://{CONTAINERD_SOCKET}
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {authority.path("ca.crt")}}}
authorization: {{mode: Webhook}}
tlsCertFile: {authority.path(f"{node.name}.crt")}
tlsPrivateKeyFile: {authority.path(f"{node.name}.key")}
failSwapOn: false
syncFrequency: 10s  # changed Secrets arrive that soon
clusterDNS: [{CONTROL_ADDRESS}]
clusterDomain: cluster.local
resolvConf: {resolver}
enforceNodeAllocatable: []
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
address: {node.address}
podLogsDir: {folder}/podlogs
"""


def disk(node: NodePlace, work: pathlib.Path) -> pathlib.Path:
    """Where the node's own disk is mounted, on the node alone."""
    return work / "volumes" / f"{node.name}-disk"


def _make_disk(node: NodePlace, work: pathlib.Path) -> str:
    """An image of a file system; the command that mounts it. It is there as long as the node."""
    image = work / node.name / "disk.ext4"
    with open(image, "wb") as file:
        file.truncate(DISK_SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    place = disk(node, work)
    place.mkdir(parents=True)
    return shlex.join(["mount", "-o", "loop", str(image), str(place)])


def _make_cgroups(node: NodePlace) -> None:
    if (CGROUPS / "cgroup.controllers").exists():
        (CGROUPS / node.cgroup).mkdir(exist_ok=True)
        return
    for controller in CGROUPS.iterdir():
        if controller.is_dir() and not controller.is_symlink():
            (controller / node.cgroup).mkdir(exist_ok=True)
    cpuset = CGROUPS / "cpuset"
    for file in ("cpuset.cpus", "cpuset.mems"):
        # Empty in a new group, where nothing could be started then.
        (cpuset / node.cgroup / file).write_text((cpuset / file).read_text(encoding="ascii"),
                                                 encoding="ascii")


def prepare(node: NodePlace, daemons: Daemons, authority: Authority,
            images: list[pathlib.Path], has_disk: bool) -> None:
    """Writes what start() reads."""
    folder = daemons.work / node.name
    for made in (folder / "cni", folder / "kubelet"):
        made.mkdir(parents=True)
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver {CONTROL_ADDRESS}\n", encoding="ascii")
    containerd = folder / "containerd.toml"
    containerd.write_text(_containerd_settings(node, folder), encoding="ascii")
    _write_registries(folder, authority)
    (folder / "cni" / "10-pods.conflist").write_text(_pod_network(node, folder), encoding="ascii")
    kubelet = folder / "kubelet.yaml"
    kubelet.write_text(_kubelet_settings(node, folder, authority, resolver), encoding="ascii")
    control = ["ctr", "-a", CONTAINERD_SOCKET]
    imports = "\n".join(
        shlex.join(map(str, [*control, "-n", "k8s.io", "image", "import", image]))
        for image in images)
    shown = "\n".join(
        f"echo {value} >/run/setting-{number}; mount --bind /run/setting-{number} /proc/sys/{name}"
        for number, (name, value) in enumerate(MACHINE_SETTINGS.items()))
    log = daemons.logs / f"containerd-{node.name}.log"
    # One mount namespace for both, so that their mounts end with them, /run among these.
    (folder / "node.sh").write_text(f"""set -eu
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
for folder in {" ".join(FIXED_FOLDERS)}; do
  mkdir -p $folder
  mount -t tmpfs tmpfs $folder
done
{shown}
{_make_disk(node, daemons.work) if has_disk else ""}
containerd -c {containerd} >>{log} 2>&1 &
until {shlex.join(map(str, [*control, "version"]))} >/dev/null 2>&1; do sleep 0.2; done
if [[ ! -e {folder}/imported ]]; then
  {imports}
  touch {folder}/imported
fi
exec bash {folder}/kubelet.sh
""", encoding="ascii")
    (folder / "kubelet.sh").write_text(f"""set -eu
exec kubelet --config {kubelet} --kubeconfig {authority.path(f"{node.name}.kubeconfig")} \\
  --hostname-override {node.name} --node-ip {node.address} --root-dir {folder}/kubelet \\
  --node-labels topology.kubernetes.io/zone={node.zone} "$@"
""", encoding="ascii")


def start(node: NodePlace, daemons: Daemons) -> None:
    _make_cgroups(node)
    daemons.start(f"kubelet-{node.name}", node.namespace, "unshare", "--mount", "bash",
                  daemons.work / node.name / "node.sh")


def kill(node: NodePlace) -> None:
    """Everything on it at once: containerd, kubelet and pods, with their mounts."""
    ending.kill_all(lambda: processes(node))
    ending.remove_cgroup(node.cgroup)


def processes(node: NodePlace) -> set[int]:
    """Of the node and of its pods, which have networks of their own."""
    return {*network.processes(node.namespace), *ending.cgroup_processes(node.cgroup)}


def _program(pid: int) -> str:
    """Empty when it has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    return ""


def _process(node: NodePlace, program: str) -> int:
    found = [pid for pid in network.processes(node.namespace) if _program(pid) == program]
    if len(found) != 1:
        raise ProcessLookupError(f"{node.name} has {len(found)} processes {program}")
    return found[0]


def restart_kubelet(node: NodePlace, daemons: Daemons, *flags: str) -> None:
    """With further flags; the pods run on."""
    kubelet = _process(node, "kubelet")
    ending.kill_all(lambda: {kubelet} & set(network.processes(node.namespace)))
    daemons.start(f"kubelet-{node.name}", node.namespace, "nsenter",
                  f"--mount=/proc/{_process(node, 'containerd')}/ns/mnt", "bash",
                  daemons.work / node.name / "kubelet.sh", *flags)


def seen_by(node: NodePlace, path: pathlib.Path) -> pathlib.Path:
    """A path of the node, from outside, as long as the node runs."""
    return pathlib.Path(f"/proc/{_process(node, 'containerd')}/root") / path.relative_to("/")


def remove_fixed_folders() -> None:
    """Unless somebody else uses them."""
    for folder in FIXED_FOLDERS:
        with contextlib.suppress(OSError):
            pathlib.Path(folder).rmdir()
