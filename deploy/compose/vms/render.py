#!/usr/bin/env python3
"""Writes a compose file for each machine of an inventory, or settings for the systemd units.

usage: render.py INVENTORY --output DIR [--certificates DIR] [--systemd]

Makes OUTPUT/MACHINE/compose.yaml for every machine, ready to be copied to it; with --systemd
OUTPUT/MACHINE/{coordinator.conf,shard-N.conf}, which deploy/systemd reads from /etc/dslide. Files
that are there are replaced, others are left alone.

--certificates takes a folder of ca.crt, ROLE.crt and ROLE.key (`dslide certs dev` makes one for
trials) and puts what each service needs in OUTPUT/MACHINE/tls/SERVICE/{tls.crt,tls.key,ca.crt}, keys
readable by their owner only. Certificates of your own go to the same places. With `crl = true` the
lists of revoked certificates in its folder crl (`dslide certs revoke` makes them), if there are any,
go to OUTPUT/MACHINE/crl; lists that are there are not replaced, as running servers read each once.

An inventory that does not hold together is refused with the field, its value and the remedy.
"""

import argparse
import ipaddress
import os
import pathlib
import re
import shutil
import sys
import tomllib

COORDINATOR_PORTS = (7000, 7001)
# Of the first shard of a machine; a further one takes the next ten.
SHARD_PORTS = (7010, 7011)
PORTS_PER_SHARD = 10
TRAINER_ADMIN = 7021
# That of the image; the keys must be readable by it.
USER = 10001
TLS_FOLDER = "/etc/dslide/tls"
# Not in the former: certificates are each service's own, lists of revoked ones are for all.
CRL_FOLDER = "/etc/dslide/crl"
DATA_FOLDER = "/var/lib/dslide"
DURABILITIES = ("checkpoint", "log-periodic", "log")
CLUSTER_DEFAULTS = {
    "name": "dslide",
    "image": "dslide:0.2.0",
    "tls": True,
    "crl": False,
    "durability": "log",
    "shard_memory": "0",
    "shard_memory_limit": "",
    "publish_admin": False,
}
MACHINE_DEFAULTS = {"name": "", "address": "", "coordinator": False, "shards": [], "trainer": ""}


class InventoryError(ValueError):
    """What is wrong with an inventory, for people."""


def _filled(given, defaults, where):
    """`given` with defaults; every field must be known and of the type of its default."""
    for field, value in given.items():
        if field not in defaults:
            raise InventoryError(f"{where}: unknown field '{field}'; there are: "
                                 f"{', '.join(defaults)}")
        if type(value) is not type(defaults[field]):
            raise InventoryError(f"{where}: {field} is {value!r}; give a value like "
                                 f"{defaults[field]!r}")
    return defaults | given


def _check_machine(machine):
    where = f"machine '{machine['name']}'"
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", machine["name"]):
        raise InventoryError(f"{where}: name is not of a-z, 0-9 and '-'; it becomes a folder")
    try:
        ipaddress.ip_address(machine["address"])
    except ValueError:
        raise InventoryError(f"{where}: address is '{machine['address']}'; give its static IP "
                             "address") from None
    if not all(type(shard) is int and shard >= 0 for shard in machine["shards"]):
        raise InventoryError(f"{where}: shards is {machine['shards']}; give numbers from 0 on")
    if machine["trainer"] and not machine["trainer"].startswith("/"):
        raise InventoryError(f"{where}: trainer is '{machine['trainer']}'; give the absolute path "
                             "of its data")


def _check_together(machines):
    for field in ("name", "address"):
        values = [machine[field] for machine in machines]
        for value in values:
            if values.count(value) > 1:
                raise InventoryError(f"{field} '{value}' is given to two machines")
    coordinators = [machine["name"] for machine in machines if machine["coordinator"]]
    if len(coordinators) != 1:
        raise InventoryError(f"coordinator = true is needed on one machine; it is on "
                             f"{len(coordinators)} ({', '.join(coordinators) or 'none'})")
    shards = sorted(shard for machine in machines for shard in machine["shards"])
    if not shards or shards != list(range(len(shards))):
        raise InventoryError(f"the shards of all machines are {shards}; number them 0, 1, 2, … "
                             "each once")


def read_inventory(text):
    """(cluster, machines) of an inventory in TOML. Raises InventoryError."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InventoryError(f"not TOML: {error}") from None
    unknown = set(raw) - {"cluster", "machine"}
    if unknown:
        raise InventoryError(f"unknown table '{sorted(unknown)[0]}'; there are: cluster, machine")
    cluster = _filled(raw.get("cluster", {}), CLUSTER_DEFAULTS, "cluster")
    if cluster["durability"] not in DURABILITIES:
        raise InventoryError(f"cluster: durability is '{cluster['durability']}'; there are: "
                             f"{', '.join(DURABILITIES)}")
    if cluster["crl"] and not cluster["tls"]:
        raise InventoryError("cluster: crl = true with tls = false: without certificates there is "
                             "nothing to revoke; set tls = true or crl = false")
    machines = []
    for number, given in enumerate(raw.get("machine", [])):
        machine = _filled(given, MACHINE_DEFAULTS, f"machine number {number + 1}")
        _check_machine(machine)
        machines.append(machine)
    _check_together(machines)
    return cluster, machines


def endpoint(address, port):
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def coordinator_address(machines):
    machine = next(machine for machine in machines if machine["coordinator"])
    return endpoint(machine["address"], COORDINATOR_PORTS[0])


def shard_ports(machine, shard):
    """(gRPC, admin) of a shard on its machine."""
    first = machine["shards"].index(shard) * PORTS_PER_SHARD
    # A trainer's admin port, 7021, would be that of the second shard: skip its ten.
    if first:
        first += PORTS_PER_SHARD
    return SHARD_PORTS[0] + first, SHARD_PORTS[1] + first


def _transport(cluster, server):
    """Settings of TLS or of its absence, as names of flags and values."""
    if not cluster["tls"]:
        return {"insecure": "true"} if server else {}
    found = {"tls-cert": f"{TLS_FOLDER}/tls.crt", "tls-key": f"{TLS_FOLDER}/tls.key",
             "tls-ca": f"{TLS_FOLDER}/ca.crt"}
    if cluster["crl"]:
        found["tls-crl-dir"] = CRL_FOLDER
    return found | ({"tls-cluster": cluster["name"]} if server else {})


def coordinator_settings(cluster, machines, host, admin_host):
    shards = sum(len(machine["shards"]) for machine in machines)
    return {"listen": endpoint(host, COORDINATOR_PORTS[0]),
            "admin": endpoint(admin_host, COORDINATOR_PORTS[1]),
            "shards": str(shards), "data-dir": DATA_FOLDER} | _transport(cluster, True)


def shard_settings(cluster, machines, machine, shard, hosts):
    """`hosts`: where it listens for gRPC and for the admin page."""
    grpc, admin = shard_ports(machine, shard)
    found = {"coordinator": coordinator_address(machines),
             "listen": endpoint(hosts[0], grpc), "admin": endpoint(hosts[1], admin),
             "advertise": endpoint(machine["address"], grpc), "shard-id": str(shard),
             "data-dir": DATA_FOLDER, "durability": cluster["durability"]}
    if cluster["shard_memory"] != "0":
        found["memory-budget"] = cluster["shard_memory"]
    return found | _transport(cluster, True)


def trainer_settings(cluster, machines):
    return {"cluster": coordinator_address(machines), "model-dir": f"{DATA_FOLDER}/model",
            "admin": f"0.0.0.0:{TRAINER_ADMIN}", "timeout": "300s"} | _transport(cluster, False)


def _environment(settings):
    for flag, value in settings.items():
        yield f"      DSLIDE_{flag.upper().replace('-', '_')}: \"{value}\""


def _service_head(cluster, name, entrypoint):
    return f"""\
  {name}:
    image: {cluster['image']}
    entrypoint: [{', '.join(f'"{word}"' for word in entrypoint)}]
    user: "{USER}:{USER}"
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    pids_limit: 512
    tmpfs: ["/tmp:size=64m,mode=1777"]
    logging:
      driver: json-file
      options: {{max-size: 10m, max-file: "3"}}""".splitlines()


def _volumes(cluster, service, *further):
    mounts = [f"{service}:{DATA_FOLDER}", *further]
    if cluster["tls"]:
        # The folder and not the files: certificates that are replaced in it are seen.
        mounts.append(f"./tls/{service}:{TLS_FOLDER}:ro")
    if cluster["crl"]:
        mounts.append(f"./crl:{CRL_FOLDER}:ro")
    return ["    volumes:", *(f'      - "{mount}"' for mount in mounts)]


def _ports(cluster, machine, grpc, admin):
    admin_host = machine["address"] if cluster["publish_admin"] else "127.0.0.1"
    published = [] if grpc is None else [f"{endpoint(machine['address'], grpc)}:{grpc}"]
    published.append(f"{endpoint(admin_host, admin)}:{admin}")
    return ["    ports:", *(f'      - "{port}"' for port in published)]


def _server(cluster, machine, name, settings, ports):
    """A service that runs until it is stopped. `settings` are flags; `ports` gRPC and admin."""
    program = name.partition("-")[0]
    lines = _service_head(cluster, name, [f"/usr/bin/dslide-{program}"])
    if program == "shard" and cluster["shard_memory_limit"]:
        lines.append(f"    mem_limit: {cluster['shard_memory_limit']}")
    return [*lines, f"""\
    restart: unless-stopped
    stop_grace_period: 120s
    healthcheck:
      test: ["CMD", "/usr/bin/dslide", "health"]
      interval: 5s
      timeout: 15s
      retries: 3
      start_period: {'600s' if program == 'shard' else '30s'}
    environment:""", *_environment(settings), *_ports(cluster, machine, *ports),
            *_volumes(cluster, name)]


def _trainer(cluster, machines, machine):
    plain = [] if cluster["tls"] else ["--insecure"]
    return [*_service_head(cluster, "trainer", ["/usr/bin/dslide", *plain]), """\
    profiles: [train]
    command: [train, --data=/data/train.txt, --eval=/data/test.txt]
    stop_grace_period: 60s
    environment:""", *_environment(trainer_settings(cluster, machines)),
            *_ports(cluster, machine, None, TRAINER_ADMIN),
            *_volumes(cluster, "trainer", f"{machine['trainer']}:/data:ro")]


def compose_file(cluster, machines, machine):
    """The text of a machine's compose.yaml; services in containers listen on all their addresses."""
    lines = [f"# {machine['name']} of cluster {cluster['name']}. Written by render.py: change the "
             "inventory instead.", "", f"name: {cluster['name']}", "", "services:"]
    services = []
    if machine["coordinator"]:
        services.append("coordinator")
        settings = coordinator_settings(cluster, machines, "0.0.0.0", "0.0.0.0")
        lines += _server(cluster, machine, "coordinator", settings, COORDINATOR_PORTS)
    for shard in machine["shards"]:
        services.append(f"shard-{shard}")
        settings = shard_settings(cluster, machines, machine, shard, ("0.0.0.0", "0.0.0.0"))
        lines += _server(cluster, machine, services[-1], settings, shard_ports(machine, shard))
    if machine["trainer"]:
        services.append("trainer")
        lines += _trainer(cluster, machines, machine)
    if not services:
        raise InventoryError(f"machine '{machine['name']}' has neither coordinator nor shards nor "
                             "trainer; give it one or leave it out")
    return "\n".join([*lines, "", "volumes:", *(f"  {name}:" for name in services), ""])


def systemd_files(cluster, machines, machine):
    """{name: text} of the settings of a machine's units."""
    admin = machine["address"] if cluster["publish_admin"] else "127.0.0.1"
    every = {}
    if machine["coordinator"]:
        every["coordinator"] = coordinator_settings(cluster, machines, machine["address"], admin)
    for shard in machine["shards"]:
        every[f"shard-{shard}"] = shard_settings(cluster, machines, machine, shard,
                                                 (machine["address"], admin))
    made = {}
    for service, settings in every.items():
        # The units make both folders, one for each service.
        settings["data-dir"] = f"{DATA_FOLDER}/{service}"
        for flag, value in settings.items():
            settings[flag] = value.replace(TLS_FOLDER, f"{TLS_FOLDER}/{service}")
        made[f"{service}.conf"] = "".join(f'{flag} = "{value}"\n'
                                          for flag, value in settings.items())
    return made


def copy_certificates(source, target, machine):
    """Puts each service's certificate, key and authority below target/tls."""
    services = (["coordinator"] if machine["coordinator"] else []) + \
        [f"shard-{shard}" for shard in machine["shards"]] + \
        (["trainer"] if machine["trainer"] else [])
    for service in services:
        role = service.partition("-")[0]
        folder = target / "tls" / service
        folder.mkdir(parents=True, exist_ok=True)
        for name, kept in ((f"{role}.crt", "tls.crt"), (f"{role}.key", "tls.key"),
                           ("ca.crt", "ca.crt")):
            if not (source / name).is_file():
                raise InventoryError(f"--certificates {source}: no {name}; `dslide certs dev` "
                                     "makes all of them")
            (folder / kept).unlink(missing_ok=True)
            shutil.copyfile(source / name, folder / kept)
            os.chmod(folder / kept, 0o400 if kept == "tls.key" else 0o444)
            if os.geteuid() == 0:
                os.chown(folder / kept, USER, USER)


def copy_lists(source, target):
    """Puts the lists of revoked certificates in target/crl, which is made in any case."""
    folder = target / "crl"
    folder.mkdir(parents=True, exist_ok=True)
    lists = sorted((source / "crl").iterdir()) if (source / "crl").is_dir() else []
    for path in lists:
        kept = folder / path.name
        if kept.exists() and kept.read_bytes() != path.read_bytes():
            raise InventoryError(f"--certificates {source}: crl/{path.name} is another list than "
                                 f"{kept}, which servers may have read and do not read again: give "
                                 "it the next number, or remove that one and restart them all")
        if not kept.exists():
            shutil.copyfile(path, kept)
            os.chmod(kept, 0o444)


def render(text, output, certificates=None, systemd=False):
    """Writes everything; the names of the files, sorted. Raises InventoryError."""
    cluster, machines = read_inventory(text)
    made = {}
    for machine in machines:
        files = (systemd_files(cluster, machines, machine) if systemd
                 else {"compose.yaml": compose_file(cluster, machines, machine)})
        made |= {f"{machine['name']}/{name}": content for name, content in files.items()}
    for name, content in made.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(content, encoding="utf-8")
    if certificates:
        for machine in machines:
            copy_certificates(certificates, output / machine["name"], machine)
            if cluster["crl"]:
                copy_lists(certificates, output / machine["name"])
    return sorted(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("inventory", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--certificates", type=pathlib.Path)
    parser.add_argument("--systemd", action="store_true")
    options = parser.parse_args()
    try:
        names = render(options.inventory.read_text(encoding="utf-8"), options.output,
                       options.certificates, options.systemd)
    except (InventoryError, OSError) as error:
        print(f"render: {options.inventory}: {error}", file=sys.stderr)
        return 2
    for name in names:
        print(options.output / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
